"""Page-aligned private memory: what is hashed and written must be nobody else's.

Rules: bytes are read into such a buffer once; that very buffer is hashed and written, so that what
is stored is what its digest says, whatever becomes of the file meanwhile. It begins at a page:
writing around the page cache needs that.

Source: O_DIRECT in open(2).
"""

import ctypes
import mmap

from perdure.store.drivers.driver import Piece

#: What lies at a multiple of this in memory and in a file can be moved around the page cache.
PAGE_BYTES = 4096


def aligned_buffer(size: int) -> memoryview:
    """``size`` bytes (at least one) of zeros that begin at a page."""
    return memoryview(mmap.mmap(-1, size))


def is_aligned(piece: memoryview) -> bool:
    """Whether a writable ``piece`` begins at a page; False where nobody can tell."""
    if piece.readonly or not piece.nbytes:
        return False
    return ctypes.addressof(ctypes.c_char.from_buffer(piece)) % PAGE_BYTES == 0


def aligned_copy(piece: Piece) -> memoryview:
    """A copy of ``piece`` that begins at a page, with zeros up to the next one."""
    data = memoryview(piece).cast("B")
    copy = aligned_buffer(up_to_page(data.nbytes))
    copy[: data.nbytes] = data
    return copy


def up_to_page(size: int) -> int:
    """``size``, or the next multiple of a page."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES
