"""The user's configuration file: what `run` and `submit` take where the command line says nothing.

`$PERDURE_CONFIG`, else ``config.toml`` in the user's configuration folder of perdure. It is read
by whoever gives a command; workers and settle jobs go by what is kept with the job.

Source: docs/configuration.md.
"""

import os
from functools import cache
from pathlib import Path

import platformdirs

from perdure.cli.config_format import BadConfig, Config, parse_config
from perdure.errors import UsageError

#: More than anybody writes into it.
_LIMIT_BYTES = 1 << 20


def config_path() -> Path:
    """Where the file is, or would be."""
    named = os.environ.get("PERDURE_CONFIG")
    return Path(named or Path(platformdirs.user_config_dir("perdure")) / "config.toml")


@cache
def user_config() -> Config:
    """What it says; without a file: nothing. Read once.

    Raises:
        UsageError: something in it is wrong; or the file that PERDURE_CONFIG names is not there.
    """
    path = config_path()
    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT_BYTES).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        if "PERDURE_CONFIG" not in os.environ:
            return Config()
        raise UsageError(
            f"{path}, which PERDURE_CONFIG names, is not there", hint="Name another, or none."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text: {error}") from error
    try:
        return parse_config(text)
    except BadConfig as error:
        where = f"{path}, line {error.line}" if error.line is not None else str(path)
        raise UsageError(f"{where}: {error.reason}", hint="See docs/configuration.md.") from error


def default_engine() -> str:
    """What `run` and `submit` take without ``--engine``.

    In a job of Slurm this host, that is the job, whatever the file says: `perdure run` is there
    to run in it.
    """
    if "SLURM_JOB_ID" in os.environ:
        return "local"
    return user_config().engine or "local"


def default_workers() -> int:
    """What they take without ``--workers``."""
    return user_config().workers or 1
