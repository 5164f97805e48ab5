"""A controller that does not answer, with a script in the place of Slurm's own command."""

import pytest

from perdure.engines.slurm.engine import SlurmEngine

SILENT = """\
#!/bin/sh
echo asked >>"$0.asked"
echo "squeue: error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """How often squeue, which nobody answers, was asked."""
    command = tmp_path / "squeue"
    command.write_text(SILENT, encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return lambda: (tmp_path / "squeue.asked").read_text(encoding="utf-8").count("asked")


def test_it_is_asked_once_whatever_the_number_of_workers(asked):
    engine = SlurmEngine()
    ids = [{"engine": "slurm", "job": f"7_{index}"} for index in range(50)]
    assert all(engine.is_there(one) for one in ids)
    assert [engine.why_stopped(one, has_begun=True) for one in ids] == [None] * 50
    assert not any(engine.ran_out_of_memory(one) for one in ids)
    assert asked() == 1
