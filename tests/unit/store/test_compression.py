import struct

import pytest

from perdure.store.compression import Codec, compress, decompress, shuffle, unshuffle

NUMBERS = struct.pack("<4096d", *(1.0 + n * 1e-9 for n in range(4096)))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", NUMBERS, NUMBERS[:-3], bytes(1000)])
def test_what_was_compressed_is_read_back(codec, data):
    used, stored = compress(data, codec)
    assert decompress(stored, used, len(data)) == data
    assert len(stored) <= len(data)


def test_shuffling_pays_for_numbers():
    plain = len(compress(NUMBERS, Codec.ZSTD)[1])
    assert len(compress(NUMBERS, Codec.SHUFFLE_8_ZSTD)[1]) < plain / 1.5


def test_what_does_not_shrink_stays_raw():
    data = bytes((n * 197 + (n >> 3) * 31) % 251 for n in range(40))
    assert compress(data, Codec.ZSTD) == (Codec.RAW, data)


def test_shuffle_gathers_bytes_of_equal_rank():
    assert shuffle(b"a1b2c3", 2) == b"abc123"
    assert shuffle(b"a1b2c3?", 2) == b"abc123?"
    assert unshuffle(b"abc123?", 2) == b"a1b2c3?"


@pytest.mark.parametrize("codec", Codec)
def test_another_length_is_refused(codec):
    used, stored = compress(NUMBERS, codec)
    for length in (len(NUMBERS) - 1, len(NUMBERS) + 1, 0):
        with pytest.raises(ValueError, match="instead of"):
            decompress(stored, used, length)


def test_rubbish_and_bombs_are_refused():
    with pytest.raises(ValueError, match=r"\w"):
        decompress(b"rubbish that is no frame", Codec.ZSTD, 100)
    _codec, bomb = compress(bytes(50_000_000), Codec.ZSTD)
    with pytest.raises(ValueError, match="11 bytes instead of 10"):
        decompress(bomb, Codec.ZSTD, 10)


def test_a_cut_frame_is_refused():
    _codec, stored = compress(NUMBERS, Codec.ZSTD)
    with pytest.raises(ValueError, match=r"\w"):
        decompress(stored[:-10], Codec.ZSTD, len(NUMBERS))
