"""Journals' lines: golden bytes, every cut, every flipped bit; nothing ever raises."""

from pathlib import Path

import pytest
from blake3 import blake3

from perdure.journal.journal_format import LINE_LIMIT_BYTES, Kind, encode_line, parse

GOLDEN = (Path(__file__).parents[2] / "golden" / "journal-1").read_bytes()
LINES = GOLDEN.splitlines(keepends=True)


def line(text: bytes) -> bytes:
    return b"%s\t%s\n" % (text, blake3(text).hexdigest()[:16].encode())


def test_what_format_1_wrote_is_read_and_written_the_same():
    parsed = parse(GOLDEN)
    assert [record.kind for record in parsed.records] == [
        Kind.OPENED,
        Kind.BEGUN,
        Kind.REPORTED,
        Kind.REPORTED,
        Kind.KEPT,
        Kind.NOTED,
        Kind.OUTCOME,
        Kind.RELEASED,
        Kind.CLOSED,
    ]
    assert (parsed.length, parsed.damaged_at) == (len(GOLDEN), None)
    assert parsed.records[4].fields["support"] == 3
    assert b"".join(encode_line(r.kind, r.fields) for r in parsed.records) == GOLDEN


def test_a_cut_at_any_byte_leaves_the_lines_before_it():
    for end in range(len(GOLDEN) + 1):
        parsed = parse(GOLDEN[:end])
        whole = GOLDEN[:end].count(b"\n")
        assert len(parsed.records) == whole
        assert parsed.length == sum(map(len, LINES[:whole]))
        assert parsed.damaged_at is None


def test_what_comes_later_is_read_from_where_the_cut_was():
    end = len(LINES[0]) + 7
    first = parse(GOLDEN[:end])
    second = parse(GOLDEN[first.length :], start=first.length)
    assert len(first.records) + len(second.records) == len(LINES)
    assert second.records[-1].end == second.length == len(GOLDEN)


def test_every_flipped_bit_ends_what_counts_at_its_line():
    data = b"".join(LINES[:3])
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            parsed = parse(bytes(flipped))
            bad = data[:position].count(b"\n")
            assert len(parsed.records) == bad
            assert parsed.length == sum(map(len, LINES[:bad]))
            # the line feed of the last line: what is left looks like a line that was cut
            is_cut = position == len(data) - 1
            assert parsed.damaged_at == (None if is_cut else parsed.length)


def test_lines_behind_a_damaged_one_do_not_count():
    parsed = parse(LINES[0] + b"damage\n" + LINES[1])
    assert len(parsed.records) == 1
    assert parsed.damaged_at == len(LINES[0])


@pytest.mark.parametrize("text", [b"[]", b"3", b"nothing", b"\xff", b"[" * 100_000, b'{"k":', b""])
def test_a_line_that_is_no_object_is_damage_whatever_its_digits(text: bytes):
    assert parse(line(text)).damaged_at == 0


@pytest.mark.parametrize("text", [b'{"k":"sometime","x":1}', b'{"x":1}', b'{"k":[1]}'])
def test_kinds_of_later_versions_are_passed_over(text: bytes):
    parsed = parse(line(text) + LINES[-1])
    assert [record.kind for record in parsed.records] == [Kind.CLOSED]
    assert parsed.damaged_at is None


def test_an_endless_line_is_damage():
    parsed = parse(LINES[0] + b"x" * (LINE_LIMIT_BYTES + 1))
    assert (len(parsed.records), parsed.damaged_at) == (1, len(LINES[0]))


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ValueError):
        encode_line(Kind.NOTED, {"x": float("nan")})
