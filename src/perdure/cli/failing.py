"""How commands fail: one clear sentence, a hint, the right exit code; with ``--json`` an object.

A traceback is printed only for a bug of ours (exit code 70).
"""

import errno
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import click

from perdure.cli.click_errors import as_ours
from perdure.cli.pointing import pointed
from perdure.errors import PerdureError, TemplateError

if TYPE_CHECKING:
    from perdure.engines.local import LocalEngine

BUG_EXIT = 70
PIPE_EXIT = 128 + signal.SIGPIPE


def run_command(command: click.Command, engine: "LocalEngine | None" = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        command: what takes the arguments.
        engine: where a worker is being prepared already.
    """
    before = sys.stdout
    try:
        code = command.main(prog_name="perdure", standalone_mode=False, obj=engine)
        sys.exit(code if isinstance(code, int) else 0)
    except SystemExit as end:
        # click's and rich's answer to a broken pipe: another standard output, and code 1
        if sys.stdout is not before or isinstance(end.__context__, BrokenPipeError):
            _quiet_stdout()
            sys.exit(PIPE_EXIT)
        raise
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        show(as_ours(error, sys.argv[1:]))
        sys.exit(2)
    except click.Abort:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        _quiet_stdout()
        sys.exit(PIPE_EXIT)
    except PerdureError as error:
        show(error)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is not None or error.errno != errno.ENOSPC:
            _tell_bug()
        _quiet_stdout()  # files have names: it is what we print into that is full
        sys.exit(_not_all_printed(error))
    except Exception:  # noqa: BLE001 - a bug of ours is told whole, with the exit code for it
        _tell_bug()


def _tell_bug() -> NoReturn:
    traceback.print_exc()
    print("perdure: this is a bug of perdure; nothing that was saved is lost.", file=sys.stderr)
    sys.exit(BUG_EXIT)


def leave(code: int) -> NoReturn:
    """Exit at once: nothing is left to be done, and taking all modules down takes its time.

    What could not be written at the end makes a success none: 141 where the reader has left, 7 or
    5 where the disk does not take it.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None: it was closed when we were started
                stream.flush()
        except BrokenPipeError:
            code = code or PIPE_EXIT
        except OSError as error:
            code = code or _not_all_printed(error)
    os._exit(code)


def _not_all_printed(error: OSError) -> int:
    """Say so, if that is still possible; the exit code for it."""
    with suppress(OSError):
        os.write(2, f"perdure: not all was printed: {error.strerror}\n".encode())
    return 7 if error.errno == errno.ENOSPC else 5


def show(error: PerdureError) -> None:
    """Tell a person, or with ``--json`` a program."""
    if wants_json():
        print(json.dumps({"error": described(error)}))
        return
    print(f"perdure: {pointed(error.message)}", file=sys.stderr)
    if isinstance(error, TemplateError) and "\n" not in error.message:
        for problem in error.problems:
            print(f"  {problem}", file=sys.stderr)
    if error.hint:
        print(f"  {pointed(error.hint)}", file=sys.stderr)


def described(error: PerdureError) -> dict[str, Any]:
    """The error as ``--json`` shows it."""
    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "fields": {name: _plain(value) for name, value in error.fields.items()},
    }


def wants_json() -> bool:
    """Whether the command line asks for JSON."""
    given = sys.argv
    return "--json" in given or "--output=json" in given or ("--output", "json") in pairwise(given)


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list | type(None)) else str(value)


def _quiet_stdout() -> None:
    """Whoever read us has left: what is still buffered must not raise at exit."""
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123 - until the process exits
