"""``scontrol checkpoint``: what was asked of Slurm's controller is asked of the job itself.

Everything else becomes the real scontrol.

Source: docs/old-slurm.md; docs/decisions/162.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from perdure.cli.old_slurm.last_requests import LastRequest, last_request, note_request
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.real import become, slurm_folder
from perdure.cli.old_slurm.request_format import Request, is_checkpoint, parse_request
from perdure.cli.old_slurm.targets import Target, failed, find_targets, step_of
from perdure.cli.places import places
from perdure.errors import PerdureError

_DISABLED = 2037
_NOT_SUPPORTED = 2036
_ONLY_BATCH = 2039
_FAILED = 1
_LOOK_SECONDS = 0.1
#: A worker says its step's id within some heartbeats.
_STEP_SECONDS = 15.0
#: Options about the command that submitted the job, not about the job.
_NOT_AGAIN = frozenset({"--parsable", "--wait", "-W"})


def control(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Carry out a request, or become the real scontrol. Blocks for MaxWait at most.

    Raises:
        OldTextError: it failed, or is none.
    """
    del environment
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    if at == len(words) or not is_checkpoint(words[at]):
        become("scontrol", words)
    request = parse_request(words[at + 1 :])
    if request.operation == "error":
        last = last_request(request.name)
        print(f"error({last.number}): {last.text}")
        return 0
    if request.operation == "able":
        return _able(request)
    _noted(request)
    return 0


def _targets(request: Request) -> list[Target]:
    """What is meant; blocks for some seconds where a step has just begun: its file needs its id."""
    until = time.monotonic() + _STEP_SECONDS
    known: list[Target] = []
    for target in find_targets(places(None, None), request):
        step = target.step
        is_step = target.opened.view.document.options.image_dir is not None
        while is_step and not step:
            if time.monotonic() > until:
                raise failed(f"a step of {request.job} is only beginning; try again", _FAILED)
            time.sleep(_LOOK_SECONDS)
            step = step_of(target, request.job)
        known.append(Target(opened=target.opened, step=step))
    return known


def _able(request: Request) -> int:
    targets = find_targets(places(None, None), request)
    last = last_request(request.name)
    if any(one.opened.view.records.state.is_asking_disabled for one in targets):
        print("No")
    elif last.is_under_way:
        began = datetime.fromtimestamp(last.began_at)  # noqa: DTZ006 - local time, as Slurm's
        print(f"Began at {began:%Y-%m-%dT%H:%M:%S}")
    else:
        print("Yes")
    return 0


def _noted(request: Request) -> None:
    """Carry it out, and keep for `error` what became of it."""
    now = time.time()
    # so much more than MaxWait as finding and writing take
    under_way = LastRequest(began_at=now, until=now + 2 * request.wait_seconds + 60, is_over=False)
    note_request(request.name, under_way)
    try:
        _OPERATIONS[request.operation](request)
    except OldTextError as error:
        text = error.text.partition(": ")[2] or error.text
        note_request(request.name, LastRequest(began_at=now, number=error.number, text=text))
        raise
    except PerdureError as error:
        note_request(
            request.name, LastRequest(began_at=now, number=error.exit_code, text=error.message)
        )
        raise
    note_request(request.name, LastRequest(began_at=now))


def _switch(request: Request) -> None:
    """Disable or enable."""
    from perdure.manager.asking import ask
    from perdure.policy.stops import JOB

    for target in find_targets(places(None, None), request):
        ask(target.opened.view, request.operation, JOB)


def _create(request: Request) -> None:
    """Let it save and go on; then the self-contained files are written."""
    _write_images(request, _save(request, _targets(request)))


def _end(request: Request) -> None:
    """Let it save, then end it; and put the whole job back where that is asked for.

    Where it does not save in time it goes on: nothing is ended that was not saved.
    """
    from perdure.cli.old_slurm.ending import mark_ending
    from perdure.engines.slurm.commands import slurm
    from perdure.manager.holding import hold
    from perdure.policy.stops import JOB

    targets = _targets(request)
    is_requeue = request.operation == "requeue"
    if is_requeue and request.step is not None:
        raise _unsupported("only a whole job can be put back into the queue")
    fields = _shown(request.job)
    if is_requeue:
        _check_requeue(fields)
    working = _save(request, targets)
    if request.step is None:
        mark_ending(request.job, fields.get("Restarts", "0"))
    for target in working:
        hold(target.opened.view, JOB, f"scontrol checkpoint {request.operation}")
    _wait_for_ends(request, working)
    if not is_requeue or request.image_dir is not None:
        _write_images(request, working)  # what is put back goes on from the store
    if request.step is None:
        slurm(["scontrol", "requeue", request.job] if is_requeue else ["scancel", request.job])


def _restart(request: Request) -> None:
    """Submit the job again, from its files."""
    from perdure.cli.old_slurm.image_files import read_batch_image
    from perdure.cli.old_slurm.image_format import image_name
    from perdure.cli.old_slurm.sbatch import rooted, submit_image

    if request.step is not None:
        raise _unsupported("a step goes on by srun --restart-dir=DIR")
    name = image_name(request.job, None)
    kept = read_batch_image(slurm_folder("jobs") / name)
    named = request.image_dir or (kept.checkpoint_dir if kept is not None else ".")
    folder = Path(named).absolute()
    image = read_batch_image(folder / name)
    if image is None and request.image_dir is None:
        image = kept
    if image is None:
        raise failed(f"there is no checkpoint of a batch job in {folder}: no {name}", _FAILED)
    _refuse_running(request.job)
    if request.sticks and not image.nodes:
        raise failed(f"{folder / name} does not say on which nodes the job ran", _FAILED)
    nodes = image.nodes if request.sticks else ""
    options = tuple(word for word in image.options if word not in _NOT_AGAIN)
    again = replace(rooted(image, request.job), nodes="", options=options)
    if submit_image(again, restart_dir=str(folder), nodes=nodes):
        raise failed("sbatch did not take the job", _FAILED)


def _save(request: Request, targets: Sequence[Target]) -> list[Target]:
    """Ask all that is at work to save, and wait until it has; those that were at work."""
    from perdure.manager.asking import ask, at_work, wait_for_saves
    from perdure.policy.stops import JOB, Scope

    if any(one.opened.view.records.state.is_asking_disabled for one in targets):
        raise failed("Requested operation is presently disabled", _DISABLED)
    working = [(one, saved) for one in targets if (saved := at_work(one.opened.view, Scope()))]
    if not working:
        raise failed(f"nothing of {request.name} is at work", _FAILED)
    until = time.monotonic() + request.wait_seconds
    for target, _ in working:
        ask(target.opened.view, "save", JOB)
    for target, before in working:
        if wait_for_saves(target.opened.view, before, max(0.0, until - time.monotonic())):
            raise failed(
                f"{request.name} did not save within MaxWait={request.wait_seconds} s; it runs on,"
                " and may yet",
                _FAILED,
            )
    return [target for target, _ in working]


def _wait_for_ends(request: Request, targets: Sequence[Target]) -> None:
    """Wait until nothing of them is at work."""
    from perdure.manager.asking import at_work
    from perdure.policy.stops import Scope

    until = time.monotonic() + request.wait_seconds
    for target in targets:
        view = target.opened.view
        view.refresh()
        while at_work(view, Scope()):
            if time.monotonic() > until:
                raise failed(
                    f"{request.name} has saved, and did not end within"
                    f" MaxWait={request.wait_seconds} s; it is still asked to: give the command"
                    " again when it has, or scancel it",
                    _FAILED,
                )
            time.sleep(_LOOK_SECONDS)
            view.refresh()


def _write_images(request: Request, targets: Sequence[Target]) -> None:
    """The self-contained files of steps; what else perdure runs in the job is in its store."""
    from perdure.cli.old_slurm.exporting import write_image

    nodes = _shown(request.job).get("NodeList", "")
    for target in targets:
        if target.step and target.opened.view.document.options.image_dir is not None:
            write_image(target, request.job, request.image_dir, nodes)


def _refuse_running(job: str) -> None:
    from perdure.engines.slurm.commands import slurm
    from perdure.errors import EngineRefused

    try:
        state = slurm(["squeue", "-h", "-j", job, "-o", "%T"]).strip()
    except EngineRefused:
        return  # Slurm has forgotten it
    if state:
        raise failed(f"job {job} is there still: it is {state}", _FAILED)


def _shown(job: str) -> Mapping[str, str]:
    """What the real scontrol shows of a job."""
    from perdure.engines.slurm.commands import slurm
    from perdure.engines.slurm.slurm_format import parse_fields

    return parse_fields(slurm(["scontrol", "-o", "show", "job", job]))


def _check_requeue(fields: Mapping[str, str]) -> None:
    """Refuse before anything is stopped what Slurm would refuse afterwards."""
    if fields.get("BatchFlag", "1") == "0":
        raise failed("Only batch jobs are accepted or processed", _ONLY_BATCH)
    if fields.get("Requeue", "1") == "0":
        raise failed("Requested operation is presently disabled", _DISABLED)


def _unsupported(why: str) -> OldTextError:
    return failed(f"Requested operation not supported on this system: {why}", _NOT_SUPPORTED)


_OPERATIONS: Mapping[str, Callable[[Request], None]] = {
    "disable": _switch,
    "enable": _switch,
    "create": _create,
    "vacate": _end,
    "requeue": _end,
    "restart": _restart,
}
