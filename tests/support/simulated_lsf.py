"""A small LSF: its commands over a folder, a scheduler, and jobs that are real processes.

What it does follows the documentation of LSF 10.1, as far as perdure uses it: arrays, dependencies,
begin times, run limits with SIGUSR2 and a warning, bkill's three signals, requeues by command and
by exit code, hosts that are lost with and without what runs there, checkpoints by ``echkpnt``.
A minute of a limit is as long as the settings say. It proves nothing about a real LSF.

Run as ``python simulated_lsf.py FOLDER COMMAND ARGUMENTS…``; `install` in `lsf_cluster` puts the
commands on a PATH. One lock guards the state, so every command sees it whole.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

USER = os.environ.get("USER", "user")
REASONS = {
    "TERM_OWNER": "job killed by owner",
    "TERM_FORCE_OWNER": "job killed by owner without time for cleanup",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_REQUEUE_OWNER": "job killed and requeued by owner",
    "TERM_CHKPNT": "job killed after checkpointing",
    "TERM_PREEMPT": "job killed after preemption",
}
OVER = ("DONE", "EXIT")


@contextmanager
def state(folder):
    """All that this LSF knows; what is changed in it is kept."""
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / "state.json"
        known = json.loads(path.read_text())
        before = json.dumps(known)
        yield known
        after = json.dumps(known)
        if after != before:
            new = path.with_suffix(".new")
            new.write_text(after)
            new.replace(path)


def refuse(text):
    print(text, file=sys.stderr)
    sys.exit(255)


# --- commands --------------------------------------------------------------------------------

WITH_VALUE = {
    *("-J", "-o", "-Q", "-wa", "-wt", "-n", "-R", "-gpu", "-w", "-b", "-q", "-P", "-W", "-k"),
    *("-m", "-app", "-G", "-e", "-M"),
}


def parsed(arguments):
    """Options by name, and the words behind them."""
    options, words = {}, list(arguments)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in WITH_VALUE:
            options[word] = words.pop(0)
        elif word in ("-r", "-rn"):
            options[word] = ""
        else:
            refuse(f"{word}: Illegal option\nJob not submitted.")
    return options, words


def minutes(text):
    hours, _, rest = text.partition("/")[0].rpartition(":")
    return int(hours or 0) * 60 + int(rest)


def indexes_of(name):
    """The indexes that a job's name asks for: [0] where it is no array."""
    match = re.fullmatch(r"(.*)\[([0-9,-]+)\](?:%\d+)?", name)
    if match is None:
        return name, [0]
    found = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return match[1], found


def bsub(folder, arguments):
    options, words = parsed(arguments)
    script = "" if words else sys.stdin.read()
    command = ["/bin/sh", "-c", " ".join(words)] if words else None
    with state(folder) as known:
        if options.get("-q", "normal") not in known["queues"]:
            refuse(f"{options['-q']}: No such queue. Job not submitted.")
        if ("-wa" in options) != ("-wt" in options):
            refuse("-wa and -wt must be used together. Job not submitted.")
        number = known["next"]
        known["next"] += 1
        if command is None:
            path = folder / "spool" / f"{number}.sh"
            path.write_text(script)
            command = ["/bin/sh", str(path)]
        name, indexes = indexes_of(options.get("-J", words[0] if words else "script"))
        for index in indexes:
            add(known, folder, number, index, name, options, command)
    print(f"Job <{number}> is submitted to queue <{options.get('-q', 'normal')}>.")


def add(known, folder, number, index, name, options, command, **more):
    begin = options.get("-b")
    warned = options.get("-wt")
    checkpoint = options.get("-k", "").split()
    method = next((w.partition("=")[2] for w in checkpoint if w.startswith("method=")), "")
    key = f"{number}[{index}]" if index else str(number)
    known["jobs"][key] = {
        "number": number,
        "index": index,
        "name": f"{name}[{index}]" if index else name,
        "command": command,
        "stat": "PEND",
        "out": options.get("-o", "/dev/null").replace("%I", str(index)).replace("%J", str(number)),
        "env": dict(os.environ),
        "cwd": str(Path.cwd()),
        "after": options.get("-w", ""),
        "begin": time.mktime(time.strptime(begin, "%Y:%m:%d:%H:%M")) if begin else 0,
        "limit": minutes(options["-W"]) if "-W" in options else None,
        "warn": [options["-wa"], minutes(warned)] if warned else None,
        "rerun": "-r" in options,
        "requeue": [int(code) for code in options.get("-Q", "").split()],
        "checkpoint": [checkpoint[0], method] if checkpoint else None,
        "options": {name: text for name, text in options.items() if name != "-J"},
        "reason": "",
        "code": "",
        **more,
    }


def chosen(known, names):
    """The jobs of ``123``, ``123[5]``; an array's number means all of its elements."""
    for name in names:
        found = [key for key, job in known["jobs"].items() if name in (key, str(job["number"]))]
        if not found:
            refuse(f"Job <{name}>: No matching job found")
        yield from found


def bjobs(folder, arguments):
    words, wanted, pattern, is_long, shows_all = list(arguments), [], None, False, False
    while words:
        word = words.pop(0)
        if word in ("-u", "-o"):
            words.pop(0)
        elif word == "-J":
            pattern = words.pop(0).rstrip("*")
        elif word == "-l":
            is_long = True
        elif word == "-a":
            shows_all = True
        elif word != "-json":
            wanted.append(word)
    with state(folder) as known:
        if known.get("silent"):
            refuse("LSF is down. Please wait ...")
        count(known)
        jobs = known["jobs"]
        keys = (
            [*chosen(known, wanted)]
            if wanted
            else [
                key
                for key, job in jobs.items()
                if (shows_all or job["stat"] not in OVER) and job["name"].startswith(pattern or "")
            ]
        )
        records = [record(known, jobs[key]) for key in keys]
    if is_long:
        print("\n".join(f"Job <{one['JOBID']}>, Status <{one['STAT']}>" for one in records))
        return
    if not records:
        refuse("No matching job found")
    print(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2))


def count(known):
    """How often bjobs was asked."""
    known["asked"] = known.get("asked", 0) + 1


def record(known, job):
    ran = time.time() - job["started"] if job.get("started") and job["stat"] != "PEND" else 0
    limit = job["limit"]
    in_minutes = None if limit is None else limit * known["minute"] / 60
    return {
        "JOBID": str(job["number"]),
        "JOBINDEX": str(job["index"]),
        "STAT": job["stat"],
        "EXIT_CODE": str(job["code"] or ""),
        "EXIT_REASON": job["reason"] and f"{job['reason']}: {REASONS[job['reason']]}",
        "JOB_NAME": job["name"],
        "RUN_TIME": f"{ran:.0f} second(s)",
        "RUNTIMELIMIT": "" if in_minutes is None else f"{in_minutes}",
    }


def bkill(folder, arguments):
    words = list(arguments)
    number = None
    if words[:1] == ["-s"]:
        number = words[1]
        words = words[2:]
    force = words[:1] == ["-r"]
    with state(folder) as known:
        for key in chosen(known, words[1:] if force else words):
            job = known["jobs"][key]
            if job["stat"] in OVER:
                refuse(f"Job <{key}>: Job has already finished")
            if number is not None:
                job.setdefault("signals", []).append(number)
            else:
                end(job, "TERM_FORCE_OWNER" if force else "TERM_OWNER", "EXIT", at_once=force)
            print(f"Job <{key}> is being terminated")


def end(job, reason, then, *, at_once=False):
    """Have it ended: three signals, or one; a job that waits is over at once."""
    if job["stat"] == "PEND":
        job.update(stat=then, reason=reason if then == "EXIT" else "")
        return
    job["ending"] = {"reason": reason, "then": then, "stage": 2 if at_once else 0, "next": 0}


def brequeue(folder, arguments):
    with state(folder) as known:
        for key in chosen(known, arguments):
            if known.get("refuses_requeue") == "silently":
                refuse("LSF is down. Please wait ...")
            if known.get("refuses_requeue"):
                refuse(f"Job <{key}>: Operation is denied by LSF administrator")
            end(known["jobs"][key], "TERM_REQUEUE_OWNER", "PEND")
            print(f"Job <{key}> is being requeued")


def bchkpnt(folder, arguments):
    kills = "-k" in arguments
    with state(folder) as known:
        for key in chosen(known, [word for word in arguments if word != "-k"]):
            if known["jobs"][key]["checkpoint"] is None:
                refuse(f"Job <{key}>: Job is not checkpointable")
            known["jobs"][key]["chkpnt"] = {"kills": kills}
            print(f"Job <{key}> is being checkpointed")


def brestart(folder, arguments):
    """A new job that goes on with the old one: ``erestart`` says by which command."""
    where, old = arguments
    with state(folder) as known:
        (key,) = chosen(known, [old])
        job = known["jobs"][key]
        number = known["next"]
        known["next"] += 1
        new = Path(where) / str(number)
        (Path(where) / old).rename(new)
        (Path(where) / old).symlink_to(new)
        add(
            *(known, folder, number, 0, job["name"], job["options"], job["command"]),
            restarts=str(new),
        )
        known["jobs"][str(number)].update(env=job["env"], cwd=job["cwd"])
    print(f"Job <{number}> is submitted to queue <normal>.")


COMMANDS = {
    "bsub": bsub,
    "bjobs": bjobs,
    "bkill": bkill,
    "brequeue": brequeue,
    "bchkpnt": bchkpnt,
    "brestart": brestart,
}


# --- the scheduler -----------------------------------------------------------------------------


class Scheduler:
    """Starts what may begin, enforces limits, ends what is to end."""

    def __init__(self, folder):
        self.folder = folder
        self.running = {}
        self.checkpoints = {}

    def step(self):
        with state(self.folder) as known:
            for key, job in known["jobs"].items():
                if key in self.running and job["stat"] != "PEND":
                    self._look_after(known, key, job)
                elif job["stat"] == "PEND" and key not in self.running:
                    self._begin(known, key, job)
                elif job["stat"] == "RUN":  # an earlier scheduler's
                    job.update(stat="UNKWN")

    def _begin(self, known, key, job):
        if job["begin"] > time.time() or not self._may_begin(known, job["after"]):
            return
        hosts = [host for host in known["hosts"] if host not in known["lost"]]
        busy = [other["host"] for other in known["jobs"].values() if other["stat"] == "RUN"]
        free = [host for host in hosts if busy.count(host) < known["slots"]]
        if not free:
            return
        environment = {
            **job["env"],
            "LSB_JOBID": str(job["number"]),
            "LSB_JOBINDEX": str(job["index"]),
            "LSB_JOBNAME": job["name"],
            "LSB_HOSTS": free[0],
            "LSB_QUEUE": "normal",
        }
        command = job["command"]
        if job["checkpoint"] is not None:
            where, method = job["checkpoint"]
            own = Path(job.get("restarts") or Path(where) / str(job["number"]))
            own.mkdir(parents=True, exist_ok=True)
            environment |= {"LSB_CHKPNT_DIR": str(own), "LSB_ECHKPNT_METHOD": method}
            if job.get("restarts"):
                command = self._restart_command(own, method, environment, command)
        with Path(job["out"]).open("ab") as out:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=job["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.running[key] = process
        job.update(stat="RUN", host=free[0], pid=process.pid, started=time.time())
        job.update(reason="", code="", warned=False, limited=0, runs=job.get("runs", 0) + 1)
        for name in ("ending", "signals"):
            job.pop(name, None)

    def _restart_command(self, folder, method, environment, command):
        """As ``erestart`` does: the method writes a command, or leaves the job's own."""
        words = [f"{environment['LSB_ECHKPNT_METHOD_DIR']}/erestart.{method}", str(folder)]
        environment["LSB_RESTART"] = "Y"
        subprocess.run(words, env=environment, check=True, capture_output=True)
        path = folder / ".restart_cmd"
        if not path.exists():
            return command
        text = path.read_text().strip().removeprefix("LSB_RESTART_CMD=")
        return ["/bin/sh", "-c", text.strip('"')]

    def _may_begin(self, known, after):
        match = re.fullmatch(r"ended\((\d+)\)", after)
        if match is None:
            return True
        states = [j["stat"] for j in known["jobs"].values() if str(j["number"]) == match[1]]
        return all(one in OVER for one in states)

    def _look_after(self, known, key, job):
        process = self.running[key]
        if job["host"] in known["lost"]:
            self._of_lost_host(known, key, job)
            return
        if job["stat"] == "UNKWN":
            job["stat"] = "RUN"
        if (code := process.poll()) is not None and not tree(process.pid):
            self._ended(key, job, code)
            return
        for name in job.pop("signals", []):
            send(process.pid, getattr(signal, f"SIG{name}"))
        if "chkpnt" in job:
            self._checkpoint(key, job)
        self._limits(known, job)
        if "ending" in job:
            self._end_on(known, process, job["ending"])

    def _ended(self, key, job, code):
        del self.running[key]
        code = code if code >= 0 else 128 - code
        ending = job.pop("ending", None)
        if (ending is None and code in job["requeue"]) or (
            ending is not None and ending["then"] == "PEND"
        ):
            job.update(stat="PEND", code="", reason="")
        else:
            # A job that is killed, handles that, and ends well is done.
            job.update(stat="EXIT" if code else "DONE", code=code)
            job["reason"] = ending["reason"] if ending is not None and code else ""

    def _end_on(self, known, process, ending):
        if time.time() < ending["next"] or ending["stage"] > 2:
            return
        send(process.pid, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[ending["stage"]])
        ending.update(stage=ending["stage"] + 1, next=time.time() + known["terminate_interval"])

    def _limits(self, known, job):
        if job["limit"] is None:
            return
        ran = time.time() - job["started"]
        minute = known["minute"]
        if job["warn"] and not job["warned"] and ran >= (job["limit"] - job["warn"][1]) * minute:
            job["warned"] = True
            send(job["pid"], getattr(signal, f"SIG{job['warn'][0]}"))
        if job["limited"] == 0 and ran >= job["limit"] * minute:
            job["limited"] = 1
            send(job["pid"], signal.SIGUSR2)
        if job["limited"] == 1 and ran >= (job["limit"] + 1) * minute and "ending" not in job:
            job["limited"] = 2
            end(job, "TERM_RUNLIMIT", "EXIT")

    def _of_lost_host(self, known, key, job):
        """Out of reach; where the host is given up, a rerunnable job runs again elsewhere."""
        job["stat"] = "UNKWN"
        if known["lost"][job["host"]] != "given up":
            return
        del self.running[key]
        job["stat"] = "PEND" if job["rerun"] else "EXIT"
        job["reason"] = ""
        job["code"] = "" if job["rerun"] else 1

    def _checkpoint(self, key, job):
        where, method = job["checkpoint"]
        environment = {
            **job["env"],
            "LSB_JOBID": str(job["number"]),
            "LSB_JOBINDEX": str(job["index"]),
            "LSB_CHKPNT_DIR": str(Path(where) / str(job["number"])),
            "LSB_ECHKPNT_METHOD": method,
            "LSB_JOBPIDS": str(job["pid"]),
        }
        if key not in self.checkpoints:
            words = [f"{environment['LSB_ECHKPNT_METHOD_DIR']}/echkpnt.{method}"]
            words += ["-k"] if job["chkpnt"]["kills"] else []
            words += ["-d", environment["LSB_CHKPNT_DIR"], str(job["pid"])]
            out = (self.folder / "echkpnt.out").open("ab")
            self.checkpoints[key] = subprocess.Popen(
                words, env=environment, cwd=job["cwd"], stdout=out, stderr=out
            )
            out.close()
        code = self.checkpoints[key].poll()
        if code is None:
            return
        del self.checkpoints[key]
        kills = job.pop("chkpnt")["kills"]
        job["checkpointed"] = [*job.get("checkpointed", []), code]
        if kills and code == 0:
            end(job, "TERM_CHKPNT", "EXIT")


def tree(pid):
    """The processes of a job: what descends from it, and its session."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2 :].split()
            if fields[0] != "Z":
                parents[int(path.name)] = (int(fields[1]), int(fields[3]))
    found = {one for one, (_parent, session) in parents.items() if pid in (one, session)}
    while new := {one for one, (parent, _s) in parents.items() if parent in found} - found:
        found |= new
    return found


def send(pid, number):
    """To all processes of a job, as LSF does."""
    for one in tree(pid):
        try:
            os.kill(one, number)
        except ProcessLookupError:
            continue


def schedule(folder):
    scheduler = Scheduler(folder)
    while (folder / "state.json").exists() and not (folder / "stop").exists():
        scheduler.step()
        time.sleep(0.05)
    for process in scheduler.running.values():
        send(process.pid, signal.SIGKILL)


def main():
    folder, command, *arguments = sys.argv[1:]
    if command == "schedule":
        schedule(Path(folder))
    else:
        COMMANDS[command](Path(folder), arguments)


if __name__ == "__main__":
    main()
