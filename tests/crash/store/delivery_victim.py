"""Delivers, and is killed (SIGKILL) at each of the calls that change something on the disk.

For every how-manieth call a child is forked that delivers a task's first output and is killed right
before or right behind that call; then another attempt delivers other bytes, as a program does that
writes the time into its files. Whoever looks in between must see only whole files, and a record
only where all is there. Prints how many kills there were; fails otherwise.
"""

import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from blake3 import blake3

from perdure.store.delivery.delivering import Delivery, sources_of
from perdure.store.delivery.delivery import Whose
from perdure.store.delivery.folder_target import FolderTarget
from perdure.store.files.gathering import Gatherer, Line
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots, Stamp
from perdure.store.layout import JobId, StepKey, TaskKey

CALLS = ("link", "rename", "unlink", "mkdir", "fsync", "pwrite", "fchmod", "utime", "open")
NAMES = ("a/one", "a/two", "b/c/three", "four")


def deliver(session, target, attempt):
    whose = Whose(job=JobId("0" * 26), step=StepKey(1), task=TaskKey("f" * 16), attempt=attempt)
    where = FolderTarget(target, whose, lambda: None)
    roots = Roots(session)
    far = Line(read_at_ns=1 << 62, stamped_at_ns=1 << 62)
    ownership = Ownership(first_claim_at_ns=0, attempt_began_at_ns=0)
    stamps = {str(session / name): Stamp.of((session / name).stat()) for name in NAMES}
    gathered = Gatherer(roots, ownership, far, lambda: 1 << 62).gather(stamps, file=None)
    sources, _notes = sources_of(gathered, roots, whose, where)
    Delivery(where, whose, now=lambda: "2026-01-01T00:00:00Z", check=lambda: None).deliver(sources)


def killing(wanted, *, is_behind):
    """From now on the ``wanted``-th changing call is the last."""
    counted = itertools.count(1)

    def replaced(real):
        def call(*args, **more):
            number = next(counted)
            if number == wanted and not is_behind:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = real(*args, **more)
            if number == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    for name in CALLS:
        setattr(os, name, replaced(getattr(os, name)))


def write(session, text):
    for name in NAMES:
        path = session / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {text}\n" * 1000)


def seen(target):
    """Every file that has a name, but for records; and the record."""
    files = {
        path.relative_to(target): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file() and ".perdure-" not in path.name and "perdure" not in path.parts
    }
    records = [path for path in target.glob("perdure/*/*.json") if ".plan." not in path.name]
    return files, [json.loads(path.read_text()) for path in records]


def check(target, texts):
    files, records = seen(target)
    whole = {f"{name} {text}\n".encode() * 1000 for name in NAMES for text in texts}
    assert set(files.values()) <= whole, "a file is not whole"
    for record in records:
        for one in record["files"]:
            assert blake3(files[Path(one["path"])]).hexdigest() == one["blake3"], one
        assert len(record["files"]) == len(NAMES)


def one(folder, wanted, *, is_behind, is_second):
    """One kill; False: the delivery ended before its moment."""
    session, target = folder / "session", folder / "target"
    texts = ["first"]
    write(session, "first")
    if is_second:
        deliver(session, target, 1)
        texts.append("second")
        write(session, "second")
    pid = os.fork()
    if not pid:
        killing(wanted, is_behind=is_behind)
        deliver(session, target, 2)
        os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    check(target, texts)
    write(session, "last")
    deliver(session, target, 3)
    check(target, ["last"])
    assert len(seen(target)[1]) == 1
    left = [path for path in target.rglob("*") if ".perdure-" in path.name or ".plan." in path.name]
    assert not left, left
    shutil.rmtree(folder)
    return os.WIFSIGNALED(status)


def main():
    top = Path(sys.argv[1])
    kills = 0
    for is_second, is_behind in itertools.product((False, True), repeat=2):
        for wanted in itertools.count(1):
            folder = top / f"{is_second}-{is_behind}-{wanted}"
            if not one(folder, wanted, is_behind=is_behind, is_second=is_second):
                break
            kills += 1
    print(kills)


main()
