"""Packs written into a folder: around the page cache, in any mixture of pieces, from threads."""

import errno
import os
import threading

import pytest

from perdure.store.drivers import posix_upload
from perdure.store.drivers.buffers import aligned_buffer
from perdure.store.drivers.posix import PosixDriver

PAGE = 4096


@pytest.fixture
def driver(tmp_path):
    return PosixDriver(tmp_path)


def random_pieces(seed: int) -> list[tuple[bytes, bool]]:
    """Pieces of many lengths, some of them aligned."""
    import random

    chance = random.Random(seed)
    sizes = [1, 10, 4095, 4096, 4097, 65536, 100_000, (1 << 20) + 5]
    return [
        (chance.randbytes(chance.choice(sizes)), chance.random() < 0.5)
        for _ in range(chance.randrange(1, 12))
    ]


def aligned(piece: bytes) -> memoryview:
    """The piece in memory that begins at a page."""
    view = aligned_buffer(len(piece))
    view[:] = piece
    return view


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("refuses", [False, True])
def test_every_piece_lies_where_it_was_said(driver, monkeypatch, seed, refuses):
    if refuses:
        monkeypatch.setattr(posix_upload, "bypass_cache", lambda _fd: False)
    upload = driver.upload("a")
    where = []
    for number, (piece, is_aligned) in enumerate(random_pieces(seed)):
        given = aligned(piece) if number % 2 else piece
        where.append((upload.write(given, aligned=is_aligned), piece, is_aligned))
    assert upload.commit()
    whole = driver.get("a")
    end = 0
    for start, piece, is_aligned in where:
        assert whole[start : start + len(piece)] == piece
        assert not whole[end:start].strip(b"\0")
        assert not is_aligned or start % PAGE == 0
        end = start + len(piece)
    assert len(whole) == end


def test_a_file_system_that_refuses_the_write_itself_gets_it_through_the_cache(driver, monkeypatch):
    real = os.pwrite
    refused = []

    def pwrite(fd, data, offset):
        if posix_upload.fcntl.fcntl(fd, posix_upload.fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(offset)
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    upload = driver.upload("a")
    upload.write(b"head")
    start = upload.write(b"x" * 200_000, aligned=True)
    assert upload.commit()
    assert driver.get("a", start) == b"x" * 200_000
    assert len(refused) <= 1  # none where the temporary folder knows no O_DIRECT


def test_several_threads_write_one_object(driver):
    upload = driver.upload("a")
    found = {}

    def write(number):
        for count in range(20):
            piece = bytes([number]) * (70_000 + count)
            found[number, count] = (upload.write(aligned(piece), aligned=True), piece)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert upload.commit()
    whole = driver.get("a")
    assert all(whole[start : start + len(piece)] == piece for start, piece in found.values())


def test_bytes_are_read_into_a_buffer_wherever_they_begin(driver):
    data = os.urandom(3 * PAGE + 100)
    upload = driver.upload("a")
    upload.write(data)
    upload.commit()
    for start, length in ((0, PAGE), (PAGE, 3 * PAGE), (10, 50), (3 * PAGE, PAGE), (1 << 20, 10)):
        buffer = aligned_buffer(length)
        got = driver.get_into("a", start, buffer)
        assert bytes(buffer[:got]) == data[start : start + length]
