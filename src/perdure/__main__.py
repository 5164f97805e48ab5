"""The ``perdure`` command, also as ``python -m perdure``."""

import signal
import sys
from typing import NoReturn

#: Commands that need a worker soon: it imports while they read the template.
_RUNNING = ("run", "resume")


def main() -> NoReturn:
    """Carry out the command line; exits."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:  # until something has begun: no traceback out of an import
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    engine = None
    if sys.argv[1:2] and sys.argv[1] in _RUNNING and not {"-h", "--help", "--detach"} & {*sys.argv}:
        from perdure.engines.local import LocalEngine

        engine = LocalEngine()
        engine.prepare()
    from perdure.cli.commands import group
    from perdure.cli.failing import leave, run_command

    code = 0
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run_command(group, engine)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    leave(code)


if __name__ == "__main__":
    main()
