"""Free room, and what quotas leave of it."""

import ctypes
import os

import pytest

from perdure.store import room
from perdure.store.room import free_bytes


def test_free_room_is_the_file_systems(tmp_path):
    found = os.statvfs(tmp_path)
    free = free_bytes(tmp_path)
    # Others write meanwhile.
    assert abs(free - found.f_bavail * found.f_frsize) < 1 << 30


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        free_bytes(tmp_path / "none")


@pytest.mark.parametrize(
    ("hard_kib", "used", "kind", "expected"),
    [
        (20 << 10, 4 << 20, room._USER, 16 << 20),
        (20 << 10, 4 << 20, room._GROUP, 16 << 20),
        (20 << 10, 30 << 20, room._USER, 0),
        (0, 4 << 20, room._USER, None),  # no limit is set
    ],
)
def test_a_quota_counts(tmp_path, monkeypatch, hard_kib, used, kind, expected):
    """By an imitation of the kernel's answer: few kernels at hand are built with quotas."""

    def get_quota(_fd, command, number, quota):
        assert number == {room._USER: 7, room._GROUP: 8}[command & 0xFF]
        assert command >> 8 == 0x800007
        if command & 0xFF != kind:
            return -1
        room._QUOTA.pack_into(quota, 0, hard_kib, 0, used, 0, 0, 0, 0, 0, 1)
        return 0

    without = free_bytes(tmp_path)
    monkeypatch.setattr(room, "_get_quota", get_quota)
    found = free_bytes(tmp_path, user=7, group=8)
    if expected is None:
        assert abs(found - without) < 1 << 30
    else:
        assert found == expected


def test_the_kernel_is_asked_and_says_no_or_how_much(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        answer = room._get_quota(
            folder, 0x800007 << 8, os.geteuid(), ctypes.create_string_buffer(72)
        )
    finally:
        os.close(folder)
    assert answer in (0, -1)
