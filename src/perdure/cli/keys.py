"""Where the key of encrypted checkpoints is: ``PERDURE_KEY_FILE``, else where the job says.

The variable is for other hosts, where the key lies elsewhere; it holds for every command.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from perdure.errors import CheckpointError, PerdureError, UsageError
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId
from perdure.store.packs.sealing import PLAIN, Sealing, read_key
from perdure.store.records.job_document import JobDocument

KEY_FILE_VARIABLE = "PERDURE_KEY_FILE"


def sealing_of(document: JobDocument, environment: Mapping[str, str] | None = None) -> Sealing:
    """How the job's blocks are encrypted.

    Raises:
        UsageError: the key cannot be read.
        CheckpointError: it is another key than the job's.
    """
    options = document.options
    if options.key_file is None:
        return PLAIN
    path = key_path(options.key_file, environment)
    cure = (
        f"The job's checkpoints need the key that it was submitted with: put it back there, or"
        f" say where it is: {KEY_FILE_VARIABLE}=FILE"
    )
    try:
        key = read_key(path)
    except UsageError as error:
        is_there = path.exists()
        raise error if is_there else UsageError(error.message, hint=cure) from error
    if options.key_id not in ("", key.key_id):
        raise CheckpointError(
            f"job {document.job} is encrypted with key {options.key_id}, and {path} holds key"
            f" {key.key_id}",
            hint=cure,
        )
    return key


def given_key(environment: Mapping[str, str] | None = None) -> Sealing:
    """The key that the variable names, for what is no job's; without it none.

    Raises:
        UsageError: the key cannot be read.
    """
    variables = os.environ if environment is None else environment
    given = variables.get(KEY_FILE_VARIABLE)
    return PLAIN if not given else read_key(Path(given).absolute())


def sealing_of_job(driver: Driver, job: JobId) -> Sealing:
    """The same of a stored job; as not at all, where the job or its key cannot be read."""
    from perdure.manager.stored_jobs import stored_job

    try:
        document = stored_job(driver, job)
        return PLAIN if document is None else sealing_of(document)
    except PerdureError:
        return PLAIN


def key_path(given: str, environment: Mapping[str, str] | None = None) -> Path:
    """Where the key is on this host, of a job that names ``given``."""
    variables = os.environ if environment is None else environment
    return Path(variables.get(KEY_FILE_VARIABLE) or given).absolute()
