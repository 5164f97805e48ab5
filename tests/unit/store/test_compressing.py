"""When a file's blocks are compressed, and how."""

import os
import struct

import pytest

from perdure.store.capture.compressing import best_codec, codec_for_file, codec_for_small, pays
from perdure.store.compression import Codec

FAST, SLOW = 2e9, 50e6
NUMBERS = struct.pack("<8192d", *(1.0 + n * 1e-9 for n in range(8192)))
FLOATS = struct.pack("<16384f", *(1.0 + n * 1e-6 for n in range(16384)))
ALL = [Codec.ZSTD, Codec.SHUFFLE_8_ZSTD, Codec.SHUFFLE_4_ZSTD]


@pytest.mark.parametrize(
    ("ratio", "speed", "expected"),
    [
        (0.5, SLOW, True),
        (0.5, FAST, False),
        (0.95, SLOW, False),  # less than a tenth saved
        (0.0, 600e6, False),  # compressing takes longer than writing it all
        (0.0, 400e6, True),
    ],
)
def test_compressing_must_save_time_and_bytes(ratio, speed, expected):
    assert pays(Codec.ZSTD, ratio, speed) is expected


def test_small_files_go_by_the_store_alone():
    assert codec_for_small(FAST) is Codec.RAW
    assert codec_for_small(SLOW) is Codec.ZSTD


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        (os.urandom(65536), Codec.RAW),
        (b"a line of a log\n" * 4096, Codec.ZSTD),
        (NUMBERS, Codec.SHUFFLE_8_ZSTD),
        (FLOATS, Codec.SHUFFLE_4_ZSTD),
        (b"", Codec.RAW),
    ],
)
def test_the_best_of_a_probe(piece, expected):
    assert best_codec([piece], ALL, SLOW) is expected


def test_a_file_is_probed_in_three_places(tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(1 << 20) + bytes(8 << 20))
    (tmp_path / "b").write_bytes(os.urandom(9 << 20))
    for name, expected in (("a", Codec.ZSTD), ("b", Codec.RAW)):
        with (tmp_path / name).open("rb") as file:
            assert codec_for_file(file.fileno(), 9 << 20, SLOW) is expected
            assert codec_for_file(file.fileno(), 9 << 20, FAST) is Codec.RAW
