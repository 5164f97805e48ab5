"""From a document to a validated template: split, let the library check, check the rest.

Everything is checked before anything is reported, so that an author sees all problems at once:

1. the split: are the extension's keys where they may be, are signals signals;
2. the stock part: the library, with all of its own rules;
3. the parts taken out: the library again, on a derived template (`derived`).
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any

from msgspec import Struct
from openjd.model import DecodeValidationError, decode_environment_template, decode_job_template
from openjd.model.v2023_09 import EnvironmentTemplate, JobTemplate

from perdure.errors import Problem
from perdure.template.derived import derive
from perdure.template.document import Document
from perdure.template.extensions import ALL_EXTENSIONS, CHECKPOINT
from perdure.template.locations import Location
from perdure.template.split import Split, split_template
from perdure.template.translation import library_problems

#: What the library raises on shapes that its own checks did not think of.
_STRAY_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


class TemplateKind(Enum):
    """Which of the two kinds of template a document is."""

    #: ``specificationVersion: jobtemplate-2023-09``
    JOB = "jobtemplate-2023-09"
    #: ``specificationVersion: environment-2023-09``
    ENVIRONMENT = "environment-2023-09"


class DecodedJob(Struct, frozen=True, kw_only=True):
    """A valid job template: the library's model of the stock part, and what was taken out."""

    document: Document
    model: JobTemplate
    split: Split


class DecodedEnvironment(Struct, frozen=True, kw_only=True):
    """A valid environment template, in the same two parts."""

    document: Document
    model: EnvironmentTemplate
    split: Split


def check_template(
    document: Document, *, extensions: Collection[str] = ALL_EXTENSIONS
) -> TemplateKind:
    """Validate a job or environment template and say which it is.

    Raises:
        TemplateError: with all problems.
    """
    if document.content.get("specificationVersion") == TemplateKind.ENVIRONMENT.value:
        decode_environment(document, extensions=extensions)
        return TemplateKind.ENVIRONMENT
    decode_job(document, extensions=extensions)
    return TemplateKind.JOB


def decode_job(document: Document, *, extensions: Collection[str] = ALL_EXTENSIONS) -> DecodedJob:
    """The valid job template in ``document``.

    Raises:
        TemplateError: with all problems.
    """
    split, model = _decode(document, extensions, decode_job_template)
    return DecodedJob(document=document, model=model, split=split)


def decode_environment(
    document: Document, *, extensions: Collection[str] = ALL_EXTENSIONS
) -> DecodedEnvironment:
    """The valid environment template in ``document``.

    Raises:
        TemplateError: with all problems.
    """
    split, model = _decode(document, extensions, decode_environment_template)
    return DecodedEnvironment(document=document, model=model, split=split)


def _decode(
    document: Document, extensions: Collection[str], library: Callable[..., Any]
) -> tuple[Split, Any]:
    split = split_template(document, extensions=extensions)
    stock = [name for name in extensions if name != CHECKPOINT]
    problems = list(split.problems)
    model, error = _ask(library, split.stock, stock)
    if error is not None:
        problems += library_problems(
            error, document, split.stock, relocate=lambda location: _shifted(location, split)
        )
    if library is decode_job_template:
        problems += _derived_problems(document, split, stock)
    if problems:
        document.refuse(tuple(problems))
    return split, model


def _derived_problems(document: Document, split: Split, stock: list[str]) -> list[Problem]:
    derived = derive(split)
    if derived is None:
        return []
    _, error = _ask(decode_job_template, derived.content, stock)
    if error is None:
        return []
    return library_problems(
        error,
        document,
        derived.content,
        relocate=derived.original,
        reword=derived.original_text,
    )


def _ask(
    library: Callable[..., Any], content: dict[str, Any], stock: list[str]
) -> tuple[Any, Exception | None]:
    """What the library makes of ``content``, or why not; it changes nothing in it."""
    try:
        return library(template=content, supported_extensions=stock), None
    except DecodeValidationError as error:
        return None, error
    except _STRAY_ERRORS as error:
        return None, ValueError(
            f"the Open Job Description library cannot read this ({type(error).__name__}: {error})"
        )


def _shifted(location: Location, split: Split) -> Location:
    """``location`` with indexes of ``extensions`` as they were before names were taken out."""
    match location:
        case ("extensions", int(index), *rest):
            for removed in split.removed_names:
                index += removed <= index
            return ("extensions", index, *rest)
        case _:
            return location
