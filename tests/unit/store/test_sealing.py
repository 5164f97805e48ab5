"""Keys, and blocks that are encrypted by them."""

import pytest

from perdure.errors import CheckpointError, UsageError
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest import Manifest
from perdure.store.packs.sealing import PLAIN, Key, check_key, read_key

ONE, OTHER = Key(b"1" * 32), Key(b"2" * 32)
LAUNCH = LaunchId("01jdxyz0000000000000000001")


def test_what_is_sealed_is_longer_and_another_each_time():
    digest = ONE.digest(b"data")
    first, second = ONE.seal(b"data", digest), ONE.seal(b"data", digest)
    assert len(first) == len(b"data") + 28
    assert first != second
    assert ONE.unseal(first, digest) == ONE.unseal(second, digest) == b"data"


def test_digests_are_keyed():
    assert len({key.digest(b"data") for key in (ONE, OTHER, PLAIN)}) == 3


@pytest.mark.parametrize("where", [0, 11, 12, 15, 20, 31])
def test_one_changed_bit_is_refused(where):
    digest = ONE.digest(b"data")
    sealed = bytearray(ONE.seal(b"data", digest))
    sealed[where] ^= 1
    with pytest.raises(ValueError, match="not encrypted with this key, or was changed"):
        ONE.unseal(sealed, digest)


def test_a_block_in_anothers_place_is_refused():
    sealed = ONE.seal(b"data", ONE.digest(b"data"))
    with pytest.raises(ValueError, match="changed"):
        ONE.unseal(sealed, ONE.digest(b"other"))
    with pytest.raises(ValueError, match="changed"):
        OTHER.unseal(sealed, ONE.digest(b"data"))
    with pytest.raises(ValueError, match="Nonce"):
        ONE.unseal(b"", ONE.digest(b""))


def test_a_key_does_not_show_itself():
    assert "1111" not in repr(ONE)
    assert ONE.key_id in repr(ONE)
    assert ONE.key_id != OTHER.key_id


@pytest.mark.parametrize(
    ("saved", "given", "said"),
    [
        (ONE, OTHER, f"encrypted with key {ONE.key_id}, and key {OTHER.key_id} was given"),
        (ONE, PLAIN, f"encrypted with key {ONE.key_id}, and no key was given"),
        (PLAIN, ONE, f"is not encrypted, and key {ONE.key_id} was given"),
    ],
)
def test_another_key_is_told_by_its_id(saved, given, said):
    manifest = Manifest(attempt=1, launch=LAUNCH, save=1, key_id=saved.key_id)
    check_key(saved, manifest, "@1")
    with pytest.raises(CheckpointError, match=said):
        check_key(given, manifest, "@1")


class TestFiles:
    @pytest.mark.parametrize("content", [b"1" * 32, b"31" * 32, b" " + b"31" * 32 + b"\n"])
    def test_bytes_or_digits(self, tmp_path, content):
        path = tmp_path / "key"
        path.touch(mode=0o600)
        path.write_bytes(content)
        assert read_key(path).key_id == ONE.key_id

    @pytest.mark.parametrize("content", [b"", b"1" * 31, b"3g" * 32, b"31" * 33])
    def test_anything_else_is_no_key(self, tmp_path, content):
        path = tmp_path / "key"
        path.touch(mode=0o600)
        path.write_bytes(content)
        with pytest.raises(UsageError, match="holds no key"):
            read_key(path)

    def test_nobody_else_may_read_it(self, tmp_path):
        path = tmp_path / "key"
        path.touch(mode=0o640)
        path.write_bytes(b"1" * 32)
        with pytest.raises(UsageError, match="others may read") as caught:
            read_key(path)
        assert caught.value.hint == f"chmod 600 {path}"

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_key(tmp_path / "none")
