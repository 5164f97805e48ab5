"""Whether a file's blocks are compressed, and how: only where that saves time.

Theory of operation. A store takes so many bytes a second from one thread. Compressing a byte costs
a known time, and saves the writing of what it makes smaller; it is done where it saves more than
it costs, and at least a tenth of the bytes. A disk of this decade is faster than any compressor;
object storage and network file systems are not. How much smaller a file becomes is probed: three
pieces of it, compressed in each way.

A pack's bytes are read back at the speed of decompressing, which is faster than any such store.

Source: measured on one core at 2 GHz to 4 GHz: zstd level 1 takes 0.5 to 1.2 GB/s of numbers, the
shuffle before it 0.45 GB/s.
"""

import os

from perdure.store.compression import Codec, compress

#: Bytes of each piece that is probed, and how many there are.
_PROBE_BYTES = 64 << 10
_PROBES = 3
_LEAST_SAVED = 0.1
#: Bytes a second and thread, with a third taken off.
_SPEEDS = {
    Codec.ZSTD: 0.5e9,
    Codec.SHUFFLE_8_ZSTD: 0.25e9,
    Codec.SHUFFLE_4_ZSTD: 0.25e9,
}


def pays(codec: Codec, ratio: float, bytes_per_second: float) -> bool:
    """Whether compressing to ``ratio`` of the size is faster than writing it all."""
    saved = 1.0 - ratio
    return saved >= _LEAST_SAVED and saved / bytes_per_second > 1.0 / _SPEEDS[codec]


def codec_for_small(bytes_per_second: float) -> Codec:
    """How a small file is stored; it is tried, and kept as it is where that is no smaller."""
    return Codec.ZSTD if pays(Codec.ZSTD, 0.5, bytes_per_second) else Codec.RAW


def codec_for_file(fd: int, size: int, bytes_per_second: float) -> Codec:
    """How a large file is stored, by three pieces of it.

    Blocks for some milliseconds where the store is slow enough to look.

    Raises:
        OSError: it cannot be read.
    """
    possible = [codec for codec in _SPEEDS if pays(codec, 0.0, bytes_per_second)]
    if not possible:
        return Codec.RAW
    last = max(size - _PROBE_BYTES, 0)
    pieces = [os.pread(fd, _PROBE_BYTES, last * n // (_PROBES - 1)) for n in range(_PROBES)]
    return best_codec(pieces, possible, bytes_per_second)


def best_codec(pieces: list[bytes], possible: list[Codec], bytes_per_second: float) -> Codec:
    """The codec that makes the pieces smallest, among those that pay; raw where none does. Pure."""
    size = sum(map(len, pieces))
    if not size:
        return Codec.RAW
    best, least = Codec.RAW, 1.0
    for codec in possible:
        ratio = sum(len(compress(piece, codec)[1]) for piece in pieces) / size
        if ratio < least and pays(codec, ratio, bytes_per_second):
            best, least = codec, ratio
    return best
