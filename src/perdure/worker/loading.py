"""From the job record to a job: the templates are decoded anew, by every process alike."""

from pathlib import Path

from perdure.store.records.job_document import JobDocument, Text
from perdure.template import ALL_EXTENSIONS, Document, Job, command_job, load_job, read_document


def load(document: JobDocument) -> Job:
    """The job.

    Raises:
        TemplateError, UsageError: it cannot be decoded (by this version) or its parameters do not
            fit; both were checked at submit.
    """
    if document.command:
        return _command_job(document)
    extensions = document.extensions if document.extensions is not None else ALL_EXTENSIONS
    return load_job(
        _read(document.template),
        parameters=document.parameters,
        environments=[_read(text) for text in document.environments],
        template_dir=Path(document.template_dir),
        current_dir=Path(document.current_dir),
        extensions=extensions,
    )


def _command_job(document: JobDocument) -> Job:
    options = document.options
    return command_job(
        document.command, restart_args=options.restart_args, restart_cmd=options.restart_cmd
    )


def _read(text: Text) -> Document:
    return read_document(text.text.encode("utf-8"), name=text.name)
