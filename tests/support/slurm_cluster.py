"""A real Slurm on this one machine: munged, slurmctld and a slurmd for each node, on loopback.

Nodes are told apart by name and port alone: each `slurmd -N NAME` has a spool folder and a port of
its own, and NodeHostname is left to be the node's name, so that one address serves all of them. No
cgroups are used, and nothing under /etc is read or written. All that the cluster writes lies in one
folder, whose path is short enough for a socket's.

The daemons need root: a slurmd starts jobs as the user who submitted them. `SlurmCluster.run` gives
commands as a plain user.

Rules: only processes that were started here are ended: by the pid in their own pid file, checked
against their command line; steps by the folder that their step daemon was started in.

Source: slurm.conf(5), slurmd(8), munged(8); what was tried on Debian 12 with Slurm 22.05.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import perdure

#: Commands of Debian's packages slurm-wlm and munge.
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
USER = "perdure-tests"
_UP_SECONDS = 30
_DOWN_SECONDS = 10
_LONGEST_PATH = 80


def missing() -> str | None:
    """Why no cluster can be had here, or None."""
    if os.geteuid() != 0:
        return "a Slurm cluster of several users needs root"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"Slurm is not installed: no {', '.join(absent)} (Debian: slurm-wlm, munge)"
    return None


def plain_user() -> pwd.struct_passwd:
    """The user who submits; made where it is missing."""
    with suppress(KeyError):
        return pwd.getpwnam(USER)
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
    return pwd.getpwnam(USER)


def free_ports(count: int) -> int:
    """The first of so many ports, one behind the other, that nobody listens on."""
    for first in range(20_000 + os.getpid() % 500 * 20, 32_000, 20):
        with ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    msg = f"no {count} free ports"
    raise AssertionError(msg)


class SlurmCluster:
    """The cluster; `up` starts what does not run, `down` ends all of it.

    Args:
        folder: for all that it writes; at most 80 characters long.
        port: the first of its ports; it takes one more for each node; None: free ones.
        nodes: how many.
        cpus: that each node claims to have.
        grace_seconds: GraceTime of the partition that is preempted.
        settings: lines of slurm.conf, by name, in place of ours or besides.
        apart: each node sees its own processes alone, as if it were a machine of its own; what it
            runs ends with its slurmd.
        private: a folder that the last node, if it is apart, does not share with the others.
        are_hosts: each node has a host name of its own: its pids then mean nothing elsewhere, as on
            a cluster of several machines.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        nodes: int = 2,
        cpus: int = 4,
        grace_seconds: int = 5,
        settings: Mapping[str, str] | None = None,
        apart: bool = False,
        private: Path | None = None,
        are_hosts: bool = False,
    ) -> None:
        assert len(str(folder)) <= _LONGEST_PATH, folder
        self.folder = folder
        self.nodes = tuple(f"n{number}" for number in range(1, nodes + 1))
        self.user = plain_user()
        self._port = port if port is not None else free_ports(nodes + 1)
        self._cpus = cpus
        self._grace_seconds = grace_seconds
        self._settings = dict(settings or {})
        self._is_apart = apart
        self._private = private
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._are_hosts = are_hosts
        self._daemon_user = "slurm" if _is_user("slurm") else "root"

    @property
    def jobs(self) -> Path:
        """A folder of the plain user."""
        return self.folder / "jobs"

    def up(self) -> None:
        """Start what does not run; blocks until every node can take work."""
        self._make_folders()
        (self.folder / "slurm.conf").write_text(self._configuration(), encoding="utf-8")
        self._start_munge()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self._wait_until_idle()

    def down(self) -> None:
        """End the jobs, the daemons and whatever jobs left; blocks until nothing is left."""
        if self._pid("slurmctld") is not None:
            self._own(["scancel", "--user", USER], check=False)
            self._own(["scancel", "--full", "--signal=KILL", "--user", USER], check=False)
        self._end("slurmctld", signal.SIGTERM)
        self._kill(self._steps(self.nodes))  # a slurmd waits long for steps that do not end
        for daemon in (*self.nodes, "munged"):
            self._end(daemon, signal.SIGTERM)
        self._kill(self.processes())  # without cgroups a step's orphans live on

    def start_controller(self) -> None:
        """Start slurmctld, unless it runs."""
        if self._pid("slurmctld") is None:
            self._own(["slurmctld", "-i", "-f", self._conf])

    def start_node(self, node: str) -> None:
        """Start a node's slurmd, unless it runs."""
        if self._pid(node) is not None:
            return
        daemon = ["slurmd", "-f", self._conf, "-N", node]
        if not self._is_apart:
            self._own([*self._as_host(node), *daemon] if self._are_hosts else daemon)
            return
        words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if self._private is not None and node == self.nodes[-1]:
            mount = 'mount -t tmpfs none "$1" && shift && exec "$@"'
            words += ["/bin/sh", "-c", mount, "sh", str(self._private)]
        self._machines[node] = subprocess.Popen(
            [*words, *daemon, "-D"],
            env={**os.environ, "SLURM_CONF": self._conf},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _as_host(self, node: str) -> list[str]:
        """What stands before a command that is to run where the host's name is the node's."""
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {' '.join(self.nodes)}\n", encoding="utf-8")
        script = f'mount --bind {hosts} /etc/hosts && hostname "$0" && exec "$@"'
        return ["unshare", "--mount", "--uts", "sh", "-c", script, node]

    def wait_for_state(self) -> None:
        """Wait until the controller has written down what it knows now: what it has not is lost."""
        began = time.time()
        state = self.folder / "state" / "job_state"
        _wait(lambda: state.exists() and state.stat().st_mtime > began, "the state of the jobs")

    def kill_controller(self) -> None:
        """SIGKILL slurmctld."""
        self._end("slurmctld", signal.SIGKILL)

    def kill_node(self, node: str, *, with_processes: bool = True) -> None:
        """SIGKILL a node's slurmd, with all that runs there or without."""
        steps = self._steps((node,)) if with_processes else ()
        self._end(node, signal.SIGKILL)
        self._kill(steps)

    def python(self) -> str:
        """An interpreter with perdure that the plain user can run.

        The tests' own may lie in root's home; then it is the system's, with the same packages.
        """
        if self._can_run(sys.executable):
            return sys.executable
        own = self.folder / "python" / "bin" / "python"
        if not own.exists():
            name = f"python{sys.version_info.major}.{sys.version_info.minor}"
            system = Path("/usr/bin") / name
            assert system.exists(), f"{sys.executable} is root's, and {system} is not there"
            folder = self.folder / "python"
            subprocess.run([str(system), "-m", "venv", "--without-pip", str(folder)], check=True)
            packages = [sysconfig.get_path("purelib"), str(Path(perdure.__file__).parents[1])]
            site = folder / "lib" / name / "site-packages" / "tests.pth"
            site.write_text("\n".join(packages) + "\n", encoding="utf-8")
        return str(own)

    def _can_run(self, program: str) -> bool:
        try:
            return self.run([program, "-c", "import perdure"], check=False).returncode == 0
        except PermissionError:
            return False

    def environment(self, **more: str) -> dict[str, str]:
        """The plain user's variables on this cluster."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        mine = {
            "HOME": self.user.pw_dir,
            "USER": self.user.pw_name,
            "LOGNAME": self.user.pw_name,
            "SLURM_CONF": self._conf,
        }
        return {**kept, **mine, **more}

    def run(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        check: bool = True,
        seconds: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Give a command as the plain user; blocks until it has ended."""
        done = subprocess.run(
            command,
            cwd=folder or self.jobs,
            env=self.environment(**(environment or {})),
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def asked(self, *words: str) -> str:
        """What a command of Slurm prints for the plain user."""
        return self.run(words).stdout.strip()

    def administer(self, *words: str) -> None:
        """Give a command of Slurm as the cluster's administrator."""
        self._own(words)

    def logs(self) -> str:
        """The last lines of every daemon, for a failure."""
        texts = []
        for path in sorted((self.folder / "log").glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            texts.append("\n".join([f"--- {path.name}", *lines[-30:]]))
        return "\n".join(texts)

    @property
    def _conf(self) -> str:
        return str(self.folder / "slurm.conf")

    def _make_folders(self) -> None:
        owners = {
            "munge": "munge" if _is_user("munge") else "root",
            "state": self._daemon_user,
            "log": self._daemon_user,
            "run": self._daemon_user,
            "spool": "root",
            "jobs": USER,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name, owner in owners.items():
            path = self.folder / name
            path.mkdir(mode=0o755, exist_ok=True)
            shutil.chown(path, owner)

    def _configuration(self) -> str:
        library = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
        run, log = self.folder / "run", self.folder / "log"
        lines = {
            "ClusterName": "perdure-tests",
            "SlurmctldHost": "localhost(127.0.0.1)",
            "SlurmctldPort": str(self._port),
            "SlurmUser": self._daemon_user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.folder}/munge/socket",
            "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
            "StateSaveLocation": f"{self.folder}/state",
            "SlurmdSpoolDir": f"{self.folder}/spool/%n",
            "SlurmctldPidFile": f"{run}/slurmctld.pid",
            "SlurmdPidFile": f"{run}/%n.pid",
            "SlurmctldLogFile": f"{log}/slurmctld.log",
            "SlurmdLogFile": f"{log}/%n.log",
            "PluginDir": f"/usr/lib/{library}/slurm-wlm",
            "PlugStackConfig": "/dev/null",
            "MpiDefault": "none",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "SwitchType": "switch/none",
            "ReturnToService": "2",
            "SlurmdParameters": "config_overrides",
            "SlurmdTimeout": "10",
            "MessageTimeout": "10",
            "KillWait": "5",
            "MinJobAge": "300",
            "MaxArraySize": "1001",
            "JobRequeue": "1",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "bf_interval=2,sched_interval=5,batch_sched_delay=0",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
        }
        lines.update(self._settings)
        text = [f"{name}={value}" for name, value in lines.items()]
        text += [
            f"NodeName={node} NodeAddr=127.0.0.1 Port={self._port + number} CPUs={self._cpus}"
            " RealMemory=4000 State=UNKNOWN"
            for number, node in enumerate(self.nodes, start=1)
        ]
        common = "Nodes=ALL MaxTime=INFINITE DefaultTime=60 State=UP"
        grace = f"PreemptMode=REQUEUE GraceTime={self._grace_seconds}"
        text += [
            f"PartitionName=low Default=YES PriorityTier=1 {grace} {common}",
            f"PartitionName=high PreemptMode=OFF PriorityTier=10 {common}",
        ]
        return "\n".join(text) + "\n"

    def _start_munge(self) -> None:
        if self._pid("munged") is not None:
            return
        folder = self.folder / "munge"
        owner = pwd.getpwnam("munge" if _is_user("munge") else "root")
        key = folder / "key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(1024))
            shutil.chown(key, owner.pw_uid)
        command = ["munged", "--force", "--num-threads=2", f"--key-file={key}"]
        command += [f"--socket={folder}/socket", f"--seed-file={folder}/seed"]
        command += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log"]
        subprocess.run(
            command, check=True, user=owner.pw_uid, group=owner.pw_gid, capture_output=True
        )
        _wait(lambda: self._pid("munged") is not None, "munged")

    def _wait_until_idle(self) -> None:
        def idle() -> bool:
            states = self._own(["sinfo", "-h", "-N", "-p", "low", "-o", "%T"]).split()
            return len(states) == len(self.nodes) and set(states) <= {"idle", "mixed", "allocated"}

        _wait(idle, "the nodes")

    def _own(self, command: Sequence[str], *, check: bool = True) -> str:
        """Give a command as root."""
        done = subprocess.run(
            command,
            env={**os.environ, "SLURM_CONF": self._conf},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr, self.logs())
        return done.stdout

    def _pid(self, daemon: str) -> int | None:
        """The daemon's process, proved to be ours."""
        if (machine := self._machines.get(daemon)) is not None:
            return machine.pid if machine.poll() is None else None
        path = self.folder / ("munge/munged.pid" if daemon == "munged" else f"run/{daemon}.pid")
        with suppress(OSError, ValueError):
            pid = int(path.read_text(encoding="ascii"))
            return pid if self._is_ours(pid) else None
        return None

    def _is_ours(self, pid: int) -> bool:
        """Whether the process runs and was started for this cluster."""
        with suppress(OSError):
            return str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
        return False

    def _end(self, daemon: str, number: int) -> None:
        pid = self._pid(daemon)
        if pid is None:
            self._machines.pop(daemon, None)
            return
        if daemon in self._machines:
            number = signal.SIGKILL  # as when the power of a machine fails
        os.kill(pid, number)
        until = time.monotonic() + _DOWN_SECONDS
        while self._is_ours(pid):  # a daemon removes its pid file before it ends
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        if (machine := self._machines.pop(daemon, None)) is not None:
            machine.wait()

    def kill_steps(self, node: str) -> None:
        """SIGKILL the step daemons of a node and all that they run; its slurmd lives on."""
        self._kill(self._steps((node,)))

    def _steps(self, nodes: Iterable[str]) -> tuple[int, ...]:
        """The step daemons of some nodes, and all that they run."""
        spools = tuple(f"{self.folder}/spool/{node}/" for node in nodes)
        sockets = {
            line.split()[6]
            for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
            if line.rpartition(" ")[2].startswith(spools)
        }
        found = [
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and _holds(path, sockets)
        ]
        return tuple(_with_descendants(found))

    def processes(self) -> tuple[int, ...]:
        """Processes of the plain user on this cluster: what jobs run, or left behind."""
        mark = f"SLURM_CONF={self._conf}\0".encode()
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                is_users = path.name.isdigit() and path.stat().st_uid == self.user.pw_uid
                if is_users and mark in (path / "environ").read_bytes():
                    found.append(int(path.name))
        return tuple(found)

    def _kill(self, processes: Iterable[int]) -> None:
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _holds(process: Path, sockets: set[str]) -> bool:
    """Whether it is a step daemon that listens on one of the sockets."""
    with suppress(OSError):
        if "slurmstepd" in str((process / "exe").readlink()):
            for descriptor in (process / "fd").iterdir():
                if str(descriptor.readlink()).removeprefix("socket:[").rstrip("]") in sockets:
                    return True
    return False


def _with_descendants(processes: Sequence[int]) -> list[int]:
    found, new = list(processes), list(processes)
    while new:
        below: list[int] = []
        for pid in new:
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                with suppress(OSError):
                    below += [int(child) for child in path.read_text(encoding="ascii").split()]
        found += below
        new = below
    return found


def _is_user(name: str) -> bool:
    with suppress(KeyError):
        return pwd.getpwnam(name) is not None
    return False


def _wait(is_so, what: str) -> None:
    until = time.monotonic() + _UP_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"{what} did not come up in {_UP_SECONDS} s"
        time.sleep(0.05)
