"""However the output is cut into pieces, and whichever way is taken, the lines are the same."""

import io
import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from perdure.protocol.lines import LINE_LIMIT_CHARACTERS, Line, LineSplitter, Overlong

PARTS = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"openjd_",
        b"OpenJD_",
        b"openjd_checkpoint_save: {}",
        b"\xff",
        "€".encode(),
        b"x" * (LINE_LIMIT_CHARACTERS - 1),
        b"x" * (LINE_LIMIT_CHARACTERS + 1),
        b"y" * 300_000,
    ]
)
TEXTS = st.lists(PARTS, max_size=25).map(b"".join)


def cut(text, places):
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def run(method, pieces):
    splitter = LineSplitter()
    found = [line for piece in pieces for line in getattr(splitter, method)(piece)]
    return found + splitter.finish(), splitter


@given(TEXTS, st.lists(st.integers(0, 2**20), max_size=12))
@example(b"a\r\nopenjd_b\r\n", [2])
def test_any_cut_gives_the_same_lines(text, places):
    whole, _ = run("feed", [text])
    assert run("feed", cut(text, places))[0] == whole


@given(TEXTS, st.lists(st.integers(0, 2**20), max_size=12))
def test_find_is_feed_without_ordinary_lines(text, places):
    lines, feeding = run("feed", [text])
    found, finding = run("find", cut(text, places))
    wanted = [
        line for line in lines if isinstance(line, Overlong) or b"openjd_" in line.data.lower()
    ]
    if found and isinstance(found[-1], Line) and found[-1].number == finding.lines_seen:
        wanted = [*wanted, lines[-1]] if wanted[-1:] != [lines[-1]] else wanted  # finish gives it
    assert found == wanted
    assert finding.lines_seen == feeding.lines_seen == len(lines)
    assert finding.overlong_seen == feeding.overlong_seen


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"ab", b""])).map(b"".join))
def test_numbers_are_those_of_universal_newlines(text):
    stock = [line.rstrip("\n") for line in io.TextIOWrapper(io.BytesIO(text), "utf-8")]
    assert [line.data.decode() for line in run("feed", [text])[0]] == stock
