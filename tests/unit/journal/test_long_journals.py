"""A journal is read piece by piece; what counts does not depend on where the pieces end."""

import pytest

from perdure.journal import account as account_module
from perdure.journal.account import LaunchAccount
from perdure.journal.journal_format import Kind, encode_line, parse


class Bytes:
    """A store with one object."""

    appends = True

    def __init__(self, data):
        self.data = data

    def head(self, _key):
        return len(self.data)

    def get(self, _key, start=0, length=None):
        return self.data[start:] if length is None else self.data[start : start + length]


def journal(lines=40):
    head = encode_line(Kind.OPENED, {"launch": "l"})
    rows = [
        encode_line(
            Kind.REPORTED,
            {"step": 1, "task": "t", "attempt": 1, "values": list(range(n * n))},
        )
        for n in range(lines)
    ]
    return head + b"".join(rows)


@pytest.mark.parametrize("size", [1, 7, 100, 999, 10**6])
def test_where_pieces_end_makes_no_difference(monkeypatch, size):
    monkeypatch.setattr(account_module, "_PIECE_BYTES", size)
    data = journal()
    found = LaunchAccount()
    assert found.read_on(Bytes(data), "k") == list(parse(data).records)
    assert (found.length, found.damaged_at) == (len(data), None)
    assert found.read_on(Bytes(data), "k") == []


@pytest.mark.parametrize("size", [10, 1000])
def test_a_cut_line_is_read_when_it_is_whole(monkeypatch, size):
    monkeypatch.setattr(account_module, "_PIECE_BYTES", size)
    data = journal()
    found = LaunchAccount()
    found.read_on(Bytes(data[:-5]), "k")
    assert found.length == parse(data[:-5]).length
    assert len(found.read_on(Bytes(data), "k")) == 1


@pytest.mark.parametrize("size", [10, 1000])
def test_damage_and_fences_end_what_counts(monkeypatch, size):
    monkeypatch.setattr(account_module, "_PIECE_BYTES", size)
    data = journal()
    third = parse(data).records[2].end
    damaged = LaunchAccount()
    damaged.read_on(Bytes(data[:third] + b"nonsense\n" + data[third:]), "k")
    assert (damaged.length, damaged.damaged_at) == (third, third)
    fenced = LaunchAccount()
    assert len(fenced.read_on(Bytes(data), "k", fence=third)) == 3
    assert fenced.length == third
    assert fenced.read_on(Bytes(data), "k", fence=third) == []


def test_a_line_longer_than_there_can_be_is_damage(monkeypatch):
    monkeypatch.setattr(account_module, "_PIECE_BYTES", 100)
    head = journal(1)
    found = LaunchAccount()
    found.read_on(Bytes(head + b"x" * (account_module.LINE_LIMIT_BYTES + 2)), "k")
    assert (found.length, found.damaged_at) == (len(head), len(head))
