"""The worker's entry: ``python -m perdure.cli.work``, started by an engine, never by people.

It becomes the keeper before anything heavy is imported; the worker is its child. The environment is
read here and passed on as values. What the worker prints itself goes where the engine says.

Exit codes: 0 whatever became of the tasks (their outcomes are in the journal), 5 and up for a store
that cannot be used, 70 for a bug of ours. An element of an array ends with 75 to have LSF put it
back, and else always with 0: some sites put back, or hold, what ends otherwise, and whether it is
tried again is perdure's to decide.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.worker.keeper import keep

#: LSF puts back what ends with it (`perdure.engines.lsf.lsf_format`, which is not imported here).
_PUT_BACK = 75


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep a worker; returns its exit code with nothing of it left."""
    options = _parser().parse_args(arguments)
    if options.wait:
        return keep(options.token, _work_when_ordered)
    code = keep(options.token, lambda: _work(options, dict(os.environ)))
    return code if options.restarts is None or code == _PUT_BACK else 0


def _work_when_ordered() -> int:
    """A prepared worker: import everything, then wait for the order; none: leave."""
    import perdure.cli.working  # noqa: F401 - what takes long, before the order comes

    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    order = json.loads(line)
    _say_into(order["said"])
    return _work(_parser().parse_args(order["arguments"]), dict(os.environ))


def _say_into(path: str) -> None:
    """Whatever is printed from now on goes there; nothing more is read."""
    said = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in ((0, nothing), (1, said), (2, said)):
        os.dup2(descriptor, number)
    os.close(said)
    os.close(nothing)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perdure-worker")
    parser.add_argument("--store")
    parser.add_argument("--job")
    parser.add_argument("--launch")
    parser.add_argument("--token", required=True)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--sessions", type=Path)
    parser.add_argument("--gpus", default=None)
    parser.add_argument("--restarts", type=int, help="of this element of an array")
    parser.add_argument("--wait", action="store_true", help="for the order, on standard input")
    return parser


def _work(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """The worker itself, in the keeper's child."""
    from perdure.cli.working import WorkerOptions, work
    from perdure.errors import PerdureError
    from perdure.worker.listening import BATCH_SYSTEMS, PERSONS, listen
    from perdure.worker.stops import StopBoard

    board = StopBoard()
    listen(board.post, BATCH_SYSTEMS if "LSB_JOBID" in environment else PERSONS)
    try:
        return work(
            WorkerOptions(
                store=options.store,
                job=options.job,
                launch=options.launch,
                token=options.token,
                logs=options.logs,
                sessions=options.sessions,
                gpus=options.gpus,
                restarts=options.restarts or 0,
            ),
            environment,
            board,
        )
    except PerdureError as error:
        print(f"perdure-worker: {error.message} {error.hint}", file=sys.stderr, flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
