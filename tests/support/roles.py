"""Which part of perdure a process is."""

from pathlib import Path


def role_of(pid):
    """What a process of the job is, or None."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if b"perdure.cli.work" in command:
            above = Path(f"/proc/{parent}/cmdline").read_bytes()
            return "worker" if b"perdure.cli.work" in above else "keeper"
        token = b"PERDURE_TOKEN=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if b"perdure" in command:
        return "manager"
    return "task" if token else None
