"""Where the key of encrypted checkpoints is: ``PERDURE_KEY_FILE``, else where the job says.

The variable is for other hosts, where the key lies elsewhere; it holds for every command.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from perdure.store.packs.sealing import PLAIN, Sealing, read_key
from perdure.store.records.job_document import JobDocument

KEY_FILE_VARIABLE = "PERDURE_KEY_FILE"


def sealing_of(document: JobDocument, environment: Mapping[str, str] | None = None) -> Sealing:
    """How the job's blocks are encrypted.

    Raises:
        UsageError: the key cannot be read.
    """
    variables = os.environ if environment is None else environment
    path = variables.get(KEY_FILE_VARIABLE) if document.options.key_file else None
    path = path or document.options.key_file
    return read_key(Path(path)) if path else PLAIN
