"""Our reading of the stock messages is openjd-sessions' own: the same lines, the same values.

An openjd upgrade that reads them otherwise fails here.
"""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openjd.model import RevisionExtensions, SpecificationRevision
from openjd.sessions._action_filter import ActionMessageKind, ActionMonitoringFilter
from openjd.sessions._subprocess import LOG_LINE_MAX_LENGTH

from perdure.protocol import (
    Ends,
    Env,
    Fail,
    LineSplitter,
    Malformed,
    Prefixed,
    Progress,
    RedactedEnv,
    SessionRuntimeLoglevel,
    Status,
    UnsetEnv,
    decode,
)
from perdure.protocol.lines import LINE_LIMIT_CHARACTERS

KINDS = [
    "progress",
    "status",
    "fail",
    "env",
    "redacted_env",
    "unset_env",
    "session_runtime_loglevel",
]


def stock(line):
    """What the library's filter calls back for a line of output."""
    calls = []
    filtered = ActionMonitoringFilter(
        session_id="s",
        callback=lambda kind, value, ends: calls.append((kind, value, ends)),
        revision_extensions=RevisionExtensions(
            spec_rev=SpecificationRevision.v2023_09, supported_extensions=["REDACTED_ENV_VARS"]
        ),
    )
    record = logging.LogRecord("x", logging.INFO, "x", 1, line, (), None)
    record.session_id = "s"
    filtered.filter(record)
    return calls


def ours(line):
    """What the same callback would be told by our reading."""
    kind = ActionMessageKind
    match decode(line.encode("utf-8", "surrogatepass")):
        case Progress(percent=percent):
            return [(kind.PROGRESS, percent, False)]
        case Status(text=text):
            return [(kind.STATUS, text, False)]
        case Fail(text=text):
            return [(kind.FAIL, text, False)]
        case Env(name=name, value=value) | RedactedEnv(name=name, value=value):
            return [(kind.ENV, {"name": name, "value": value}, False)]
        case UnsetEnv(name=name):
            return [(kind.UNSET_ENV, name, False)]
        case SessionRuntimeLoglevel(level=level):
            return [(kind.SESSION_RUNTIME_LOGLEVEL, getattr(logging, level.value), False)]
        case Malformed() as malformed:
            return malformed
        case Prefixed() | None:
            return []
        case _:
            return []


def assert_same(line):
    theirs, mine = stock(line), ours(line)
    if not isinstance(mine, Malformed):
        assert mine == theirs, line
        return
    ends = bool(theirs) and theirs[0][2]
    if mine.ends is Ends.ANY_ACTION:
        assert (ends, theirs[0][0]) == (True, ActionMessageKind.FAIL)
    elif mine.ends is Ends.NO_ACTION:
        assert theirs == []
    else:  # a JSON string that does not end, and redacted values, are told and end nothing
        assert not theirs or (ends and theirs[0][0] is not ActionMessageKind.FAIL)


@pytest.mark.parametrize(
    "line",
    [
        "openjd_progress: 50",
        "openjd_progress:  50 ",
        "openjd_progress: 1_0",
        "openjd_progress: nan",
        "openjd_progress: 100.1",
        "openjd_progress:50",
        " openjd_progress: 50",
        "openjd_status: ",
        "openjd_status:  two",
        "openjd_fail: x",
        "openjd_env: A=b",
        "openjd_env:    A=b=c ",
        'openjd_env: "A=b\\nc"',
        'openjd_env: "A=b',
        "openjd_env: 9=b",
        "openjd_env: A",
        "openjd_env:A=b",
        "openjd_env",
        "Openjd_Env: A=b",
        "openjd_environment: x",
        "openjd_redacted_env: A=b",
        "openjd_redacted_env: A",
        "openjd_unset_env: A",
        "openjd_unset_env: A ",
        "openjd_session_runtime_loglevel:  debug ",
        "openjd_session_runtime_loglevel: x",
        "OPENJD_PROGRESS: 5",
    ],
)
def test_lines(line):
    assert_same(line)


REST = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)


@given(
    st.sampled_from(["", "", " ", "x"]),
    st.sampled_from(KINDS),
    st.sampled_from([": ", ":", "", " : "]),
    REST
    | st.sampled_from(["A=b", '"A=b"', "A", "50", "1e2", "-0", "INFO", " warning", '"A=\\u00e9"']),
)
def test_any_line(prefix, kind, colon, rest):
    assert_same(f"{prefix}openjd_{kind}{colon}{rest}")


def test_the_limit_of_a_line_is_the_same():
    assert LINE_LIMIT_CHARACTERS == LOG_LINE_MAX_LENGTH


@given(st.lists(st.sampled_from(["a", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028"])).map("".join))
def test_lines_end_where_the_library_ends_them(text):
    stream = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    theirs = [line.rstrip("\n\r") for line in iter(lambda: stream.readline(64_000), "")]
    splitter = LineSplitter()
    found = splitter.feed(text.encode()) + splitter.finish()
    assert [line.data.decode() for line in found] == theirs


def test_a_long_line_is_many_for_the_library_and_one_discarded_for_us():
    """The trap that the limit is there for: the library's second piece can be a message."""
    forged = "x" * LOG_LINE_MAX_LENGTH + "openjd_fail: forged\n"
    stream = io.TextIOWrapper(io.BytesIO(forged.encode()), encoding="utf-8")
    theirs = [line.rstrip("\n") for line in iter(lambda: stream.readline(LOG_LINE_MAX_LENGTH), "")]
    assert stock(theirs[1]) == [(ActionMessageKind.FAIL, "forged", False)]
    splitter = LineSplitter()
    assert [line.number for line in splitter.find(forged.encode())] == [1]
    assert splitter.overlong_seen == 1
