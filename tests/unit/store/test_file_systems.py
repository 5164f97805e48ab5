"""What may be believed of a file's times, by file system and kernel."""

import pytest

from perdure.store.files.file_systems import kind_of, tick_ns, tick_of


@pytest.mark.parametrize(
    ("kind", "release", "expected"),
    [
        ("ext4", "6.13.0-rc1", 0),
        ("xfs", "7.0", 0),
        ("ext4", "6.12.9-generic", 20_000_000),
        ("ext4", "5.10.0", 20_000_000),
        ("f2fs", "6.18.0", 20_000_000),
        ("nfs4", "6.18.0", 2_000_000_000),
        ("", "6.18.0", 2_000_000_000),
        ("ext4", "strange", 20_000_000),
    ],
)
def test_how_long_two_versions_may_look_alike(kind, release, expected):
    assert tick_of(kind, release) == expected


def test_this_hosts_file_systems_have_names(tmp_path):
    device = tmp_path.stat().st_dev
    assert kind_of(device)
    assert tick_ns(device) == tick_of(kind_of(device), __import__("os").uname().release)


def test_a_device_that_is_not_mounted_has_none():
    assert kind_of(0xFFFF_FFFF) == ""
