"""Lines: where they end, how they are numbered, what is discarded, what is found."""

import tracemalloc

import pytest

from perdure.protocol.lines import LINE_LIMIT_CHARACTERS, Line, LineSplitter, Overlong

LONG = b"x" * LINE_LIMIT_CHARACTERS


def split(*pieces):
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return found + splitter.finish()


def find(*pieces):
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.find(piece)]
    return found + splitter.finish(), splitter


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b""], []),
        ([b"a"], [b"a"]),
        ([b"a\n"], [b"a"]),
        ([b"\n"], [b""]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"10%\r20%\r\n"], [b"10%", b"20%"]),
        ([b"a\r", b"\nb\n"], [b"a", b"b"]),
        ([b"a\r", b"", b"\nb\n"], [b"a", b"b"]),
        ([b"a\r", b"b\n"], [b"a", b"b"]),
        ([b"a\r\r\nb"], [b"a", b"", b"b"]),
        ([b"a\n\rb"], [b"a", b"", b"b"]),
        ([b"a", b"b", b"\n"], [b"ab"]),
        ([b"\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8\n"], [b"\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8"]),
    ],
)
def test_lines_end_as_openjd_sessions_ends_them(pieces, lines):
    assert split(*pieces) == [Line(n, data) for n, data in enumerate(lines, 1)]


def test_a_line_of_exactly_the_limit_is_whole_and_one_more_character_is_one_record():
    assert split(LONG + b"\n" + LONG + b"y\nz\n") == [
        Line(1, LONG),
        Overlong(2, LINE_LIMIT_CHARACTERS + 1, b"x" * 64),
        Line(3, b"z"),
    ]


def test_the_limit_counts_characters_and_a_stray_byte_is_one():
    euros = "€".encode() * LINE_LIMIT_CHARACTERS
    stray = b"\xff" * LINE_LIMIT_CHARACTERS
    assert split(euros + b"\n") == [Line(1, euros)]
    assert isinstance(split(euros + b"a\n")[0], Overlong)
    assert split(stray) == [Line(1, stray)]
    assert isinstance(split(stray + b"\xff")[0], Overlong)


@pytest.mark.parametrize("method", ["feed", "find"])
def test_the_rest_of_an_overlong_line_is_never_a_message(method):
    forged = b"openjd_checkpoint_save: " + LONG * 3 + b'openjd_checkpoint_save: {"state": "evil"}'
    splitter = LineSplitter()
    pieces = [forged[i : i + 64_000] for i in range(0, len(forged), 64_000)]
    found = [line for piece in [*pieces, b"\nafter\n"] for line in getattr(splitter, method)(piece)]
    assert found[0] == Overlong(1, len(forged), forged[:64])
    assert all(line == Line(2, b"after") for line in found[1:])
    assert splitter.lines_seen == 2
    assert splitter.overlong_seen == 1


def test_find_gives_marked_lines_with_their_numbers_and_counts_the_others():
    text = b"one\r\nopenjd_a: 1\rthree\n  OPENJD_ENV: x=y\n[r0] openjd_b: 2\n\nopenjd_c"
    found, splitter = find(text)
    assert found == [
        Line(2, b"openjd_a: 1"),
        Line(4, b"  OPENJD_ENV: x=y"),
        Line(5, b"[r0] openjd_b: 2"),
        Line(7, b"openjd_c"),
    ]
    assert splitter.lines_seen == 7


def test_find_sees_overlong_lines_between_messages_in_one_piece():
    text = b"openjd_a\n" + LONG * 2 + b"\r\nopenjd_b\r\n" + b"openjd_" + LONG + b"\n" + b"c\n" * 9
    found, splitter = find(text)
    assert [(line.number, type(line)) for line in found] == [
        (1, Line),
        (2, Overlong),
        (3, Line),
        (4, Overlong),
    ]
    assert splitter.lines_seen == 13


def test_memory_stays_bounded_however_long_a_line_is():
    splitter = LineSplitter()
    piece = b"z" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1_000):
            assert splitter.find(piece) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert splitter.find(b"\n") == [Overlong(1, 65_536_000, b"z" * 64)]
