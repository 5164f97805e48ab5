"""Where a job's files may lie beside its session folder: from the job, never from messages."""

from pathlib import Path

from perdure.store.records.job_document import JobDocument
from perdure.template import Job


def outside_roots(document: JobDocument, job: Job) -> tuple[Path, ...]:
    """PATH parameters, the destinations of path mapping, the work folder, and ``--allow-root``."""
    mapped = [str(rule.get("destination_path", "")) for rule in document.path_mapping]
    named = [*job.path_values, *mapped, document.current_dir, *document.options.allow_roots]
    paths = [Path(text) for text in named if text.startswith("/") and Path(text) != Path("/")]
    return tuple(dict.fromkeys(paths))
