"""How a block's bytes lie in a pack: the codecs of docs/store-format.md.

Restart files of solvers hold floating point numbers whose high bytes look alike: gathering the
bytes of equal rank ("shuffle") before compressing gains more than a stronger compressor, at less
cost. Bytes that are left over when the length is no multiple of the width follow unshuffled.

Source: docs/store-format.md "Manifests"; the shuffle filter of HDF5 is the model.
"""

from enum import IntEnum

import zstandard

_LEVEL = 1


class Codec(IntEnum):
    """A block's codec, stored by number."""

    #: as it is
    RAW = 0
    #: zstd
    ZSTD = 1
    #: bytes of equal rank in 8-byte numbers gathered, then zstd
    SHUFFLE_8_ZSTD = 2
    #: bytes of equal rank in 4-byte numbers gathered, then zstd
    SHUFFLE_4_ZSTD = 3


_WIDTHS = {Codec.SHUFFLE_8_ZSTD: 8, Codec.SHUFFLE_4_ZSTD: 4}


def compress(data: bytes, codec: Codec) -> tuple[Codec, bytes]:
    """``data`` by ``codec``, or raw where that is not smaller."""
    if codec is Codec.RAW:
        return codec, data
    width = _WIDTHS.get(codec)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(
        shuffle(data, width) if width else data
    )
    return (codec, packed) if len(packed) < len(data) else (Codec.RAW, data)


def decompress(stored: bytes, codec: Codec, length: int) -> bytes:
    """The ``length`` bytes of a block that lie as ``stored``.

    Raises:
        ValueError: ``stored`` is not what `compress` made of so many bytes. No more memory than
            ``length`` is ever used for it.
    """
    data = stored if codec is Codec.RAW else inflate(stored, length)
    if len(data) != length:
        msg = f"{len(data)} bytes instead of {length}"
        raise ValueError(msg)
    width = _WIDTHS.get(codec)
    return unshuffle(data, width) if width else data


def inflate(stored: bytes, length: int) -> bytes:
    """The bytes that zstd packed as ``stored``; where it is more than ``length``, one more.

    Raises:
        ValueError: zstd did not make ``stored``.
    """
    try:
        # A stream stops at the bound; a one-shot call would believe the frame's own header.
        with zstandard.ZstdDecompressor().stream_reader(stored) as stream:
            return bytes(stream.read(length + 1))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def shuffle(data: bytes, width: int) -> bytes:
    """``data`` with the first bytes of all ``width``-byte numbers first, then the second ones."""
    whole = len(data) - len(data) % width
    return b"".join(data[rank:whole:width] for rank in range(width)) + data[whole:]


def unshuffle(data: bytes, width: int) -> bytes:
    """What `shuffle` was given."""
    count = len(data) // width
    whole = count * width
    plain = bytearray(data)
    for rank in range(width):
        plain[rank:whole:width] = data[rank * count : (rank + 1) * count]
    return bytes(plain)
