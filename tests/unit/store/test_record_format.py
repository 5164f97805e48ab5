"""Records: golden bytes stay readable, every flipped bit is found, later formats are refused."""

from pathlib import Path

import pytest
from blake3 import blake3

from perdure.errors import FormatTooNew, StoreDamaged
from perdure.store.records.record_format import canonical_json, decode_record, encode_record

GOLDEN = Path(__file__).parents[2] / "golden" / "record-1"
AT = "2026-01-02T03:04:05.678Z"
ID = "0123456789abcdef0123456789abcdef"
CLAIM = {
    "kind": "claim",
    "id": ID,
    "at": AT,
    "attempt": 2,
    "launch": "01jdxyz0000000000000000001",
    "base": 1,
    "split": [{"Frame": "7-9"}],
    "later": "ignored",
}
SAVE = {"kind": "save", "id": ID, "at": AT, "claim": 2, "name": "épée"}
PAYLOAD = b"payload\n\x00\xff"


def test_what_format_1_wrote_is_read_and_written_the_same():
    claim = decode_record((GOLDEN / "claim").read_bytes(), key="k")
    assert (dict(claim.header), claim.payload) == (CLAIM, b"")
    assert (claim.kind, claim.writer_id) == ("claim", ID)
    save = decode_record((GOLDEN / "save").read_bytes(), key="k")
    assert dict(save.header) == {**SAVE, "payload": len(PAYLOAD)}
    assert save.payload == PAYLOAD
    assert encode_record(CLAIM) == (GOLDEN / "claim").read_bytes()
    assert encode_record(SAVE, PAYLOAD) == (GOLDEN / "save").read_bytes()


def test_every_flipped_bit_is_found():
    data = encode_record({"kind": "pin", "id": "x", "save": 3}, b"pay")
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises((StoreDamaged, FormatTooNew)):
                decode_record(bytes(flipped), key="some/key")


def test_every_cut_and_every_addition_is_found():
    data = encode_record({"kind": "pin", "id": "x"}, b"pay")
    for end in range(len(data)):
        with pytest.raises(StoreDamaged, match="some/key is damaged"):
            decode_record(data[:end], key="some/key")
    with pytest.raises(StoreDamaged):
        decode_record(data + b"\n", key="some/key")


def test_a_later_format_is_refused_with_its_number():
    data = encode_record({"kind": "pin"}).replace(b"record 1\n", b"record 2\n", 1)
    body = data[:-66]
    data = b"%s\n%s\n" % (body, blake3(body).hexdigest().encode())
    with pytest.raises(FormatTooNew, match=r"some/key is written in format 2; .* up to 1"):
        decode_record(data, key="some/key")


@pytest.mark.parametrize("data", [b"", b"\n", b"perdure-record x\n{}\n", b"PK\x03\x04" * 100])
def test_what_is_no_record_is_damaged(data: bytes):
    with pytest.raises(StoreDamaged, match="does not begin like a record"):
        decode_record(data, key="k")


@pytest.mark.parametrize("header", [b"[]", b"3", b"{", b"\xff"])
def test_a_header_that_is_no_object_is_damaged(header: bytes, monkeypatch):
    monkeypatch.setattr("perdure.store.records.record_format.canonical_json", lambda _value: header)
    data = encode_record({})
    monkeypatch.undo()
    with pytest.raises(StoreDamaged, match="its header is no JSON"):
        decode_record(data, key="k")


def test_a_payload_of_another_length_is_damaged(monkeypatch):
    monkeypatch.setattr(
        "perdure.store.records.record_format.canonical_json", lambda _value: b'{"payload":2}'
    )
    data = encode_record({}, b"abc")
    monkeypatch.undo()
    with pytest.raises(StoreDamaged, match="payload is shorter or longer"):
        decode_record(data, key="k")


def test_equal_values_have_equal_bytes():
    assert (
        canonical_json({"b": 1, "a": [True, None, "é"]}) == '{"a":[true,null,"é"],"b":1}'.encode()
    )
    for value in (float("nan"), float("inf"), "\ud800"):
        with pytest.raises(ValueError):
            canonical_json(value)


def test_a_damaged_number_of_the_format_is_no_later_format():
    data = encode_record({"kind": "x", "id": "", "at": ""}, b"payload")
    flipped = data.replace(b"perdure-record 1", b"perdure-record 3", 1)
    with pytest.raises(StoreDamaged, match="format's number"):
        decode_record(flipped, key="a")
