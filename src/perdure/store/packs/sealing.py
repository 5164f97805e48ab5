"""Encryption of blocks at rest, and the digests by which blocks are known.

Without a key a block's digest is BLAKE3 of its bytes. With one, the digest is keyed, so that
nobody who reads the store can tell whether a known content is in it, and each block is encrypted
with AES-256-GCM behind its compression: a random nonce of 96 bits, the ciphertext, a tag of 128
bits. The digest is authenticated with it, so that a block put in another's place is refused.

The key lies in a file of 32 bytes, or of 64 hexadecimal digits, and nowhere in the store; the store
knows it by an id derived from it. What manifests say (names, sizes, the state's text) and what the
job's record says is not encrypted.

Limits: with one key no more than 2^32 blocks (16 PiB) should be written, for the nonces' sake.

Source: NIST SP 800-38D; BLAKE3's key derivation mode; the package `cryptography`.
"""

import os
import re
import secrets
import stat
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from blake3 import blake3
from msgspec import Struct

from perdure.errors import CheckpointError, UsageError
from perdure.store.drivers.driver import Piece
from perdure.store.manifests.manifest import Manifest

_NONCE_BYTES = 12
_KEY_BYTES = 32
_HEX_KEY = re.compile(rb"\s*[0-9a-fA-F]{64}\s*")
_ID_DIGITS = 16


class Sealing(Protocol):
    """How blocks are known and kept.

    Attributes:
        key_id: of the key; "" for none.
    """

    @property
    def key_id(self) -> str:
        """Of the key; "" for none."""
        ...

    def digest(self, data: Piece) -> bytes:
        """By which a block of these bytes is known."""
        ...

    def seal(self, packed: Piece, digest: bytes) -> Piece:
        """The bytes that are written for a block."""
        ...

    def unseal(self, stored: Piece, digest: bytes) -> Piece:
        """What `seal` was given.

        Raises:
            ValueError: these bytes were not made by this key for this block.
        """
        ...


class _Plain:
    """No encryption."""

    key_id = ""

    def digest(self, data: Piece) -> bytes:
        return blake3(data).digest()

    def seal(self, packed: Piece, digest: bytes) -> Piece:  # noqa: ARG002 - nothing to bind
        return packed

    def unseal(self, stored: Piece, digest: bytes) -> Piece:  # noqa: ARG002
        return stored


PLAIN: Sealing = _Plain()


class Key(Struct, frozen=True, dict=True):
    """A key of 32 bytes; not shown by ``repr``."""

    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.key_id})"

    @cached_property
    def key_id(self) -> str:
        """By which the store knows the key."""
        return self._derived("id").hex()[:_ID_DIGITS]

    @cached_property
    def _digest_key(self) -> bytes:
        return self._derived("digest")

    @cached_property
    def _cipher(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra

        return AESGCM(self._derived("encryption"))

    def _derived(self, what: str) -> bytes:
        return blake3(self.secret, derive_key_context=f"perdure 2026 block {what}").digest()

    def digest(self, data: Piece) -> bytes:
        """By which a block of these bytes is known."""
        return blake3(data, key=self._digest_key).digest()

    def seal(self, packed: Piece, digest: bytes) -> bytes:
        """Nonce, ciphertext, tag."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, packed, digest)
        return nonce + sealed

    def unseal(self, stored: Piece, digest: bytes) -> bytes:
        """What `seal` was given; raises as `Sealing.unseal` says."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - the extra `crypt`

        data = memoryview(stored)
        try:
            plain: bytes = self._cipher.decrypt(
                bytes(data[:_NONCE_BYTES]), data[_NONCE_BYTES:], digest
            )
        except InvalidTag as error:
            msg = "it was not encrypted with this key, or was changed"
            raise ValueError(msg) from error
        return plain


def check_key(sealing: Sealing, manifest: Manifest, name: str) -> None:
    """Refuse a checkpoint that another key, or none, was used for.

    Args:
        sealing: what is to read it.
        manifest: the checkpoint's.
        name: how it is called.

    Raises:
        CheckpointError: so it is.
    """
    if manifest.key_id == sealing.key_id:
        return
    needed = f"is encrypted with key {manifest.key_id}" if manifest.key_id else "is not encrypted"
    given = f"key {sealing.key_id} was given" if sealing.key_id else "no key was given"
    raise CheckpointError(
        f"checkpoint {name} {needed}, and {given}",
        hint="Name the file of its key: PERDURE_KEY_FILE=FILE, or take that variable away.",
        checkpoint=name,
    )


def read_key(path: Path) -> Key:
    """The key in a file.

    Raises:
        UsageError: it cannot be read, is no key, or others may read it.
    """
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            data = file.read(4096)
    except OSError as error:
        raise UsageError(
            f"the key file {path} cannot be read: {error.strerror}",
            hint="Make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE",
        ) from error
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"others may read or write the key file {path}", hint=f"chmod 600 {path}")
    if len(data) != _KEY_BYTES and _HEX_KEY.fullmatch(data) is None:
        raise UsageError(
            f"the key file {path} holds no key: it has {len(data)} bytes",
            hint="It must have 32 bytes, or 64 hexadecimal digits.",
        )
    key = Key(data if len(data) == _KEY_BYTES else bytes.fromhex(data.decode("ascii").strip()))
    try:
        key.digest(b"")
        key.seal(b"", b"")
    except ImportError as error:
        raise UsageError(
            "encryption needs the package cryptography, which is not installed",
            hint="pip install cryptography",
        ) from error
    return key
