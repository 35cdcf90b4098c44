"""Secrets at rest: sealed with AES-256-GCM under the first key and bound to their row."""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FILE: Final = "encryption.key"
KEY_BYTES: Final = 32

_VERSION: Final = b"\x01"
_ID: Final = 4
_NONCE: Final = 12
_HEAD: Final = len(_VERSION) + _ID


class VaultError(Exception):
    """A secret can't be opened, or no key is available; the message says what to do."""


class Vault:
    """Seals with the first key and opens with any, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise VaultError(f"An encryption key has {KEY_BYTES} bytes, and at least one is needed.")
        self._roots = tuple(keys)
        # If two keys share an id, the first that opens the secret is used.
        self._keys = [(hashlib.sha256(key).digest()[:_ID], AESGCM(key)) for key in keys]

    def __repr__(self) -> str:
        return f"Vault({', '.join(key_id.hex() for key_id, _ in self._keys)})"

    def derive(self, purpose: str) -> list[bytes]:
        """Return a key for the purpose from each encryption key, in their order.

        HKDF (RFC 5869): a derived key reveals nothing about the encryption key or another purpose's key.
        """
        return [
            HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(root)
            for root in self._roots
        ]

    def seal(self, text: str, *, context: str) -> bytes:
        """Return the text encrypted: version, key id, nonce, ciphertext.

        It opens only with the same context, so that a secret copied to another row is useless.
        """
        key_id, cipher = self._keys[0]
        head, nonce = _VERSION + key_id, os.urandom(_NONCE)
        return head + nonce + cipher.encrypt(nonce, text.encode(), head + context.encode())

    def open(self, sealed: bytes, *, context: str) -> str:
        """Return the text that was sealed. Raises VaultError."""
        head, nonce, ciphertext = sealed[:_HEAD], sealed[_HEAD : _HEAD + _NONCE], sealed[_HEAD + _NONCE :]
        for key_id, cipher in self._keys:
            if head == _VERSION + key_id:
                try:
                    return cipher.decrypt(nonce, ciphertext, head + context.encode()).decode()
                except (InvalidTag, ValueError):
                    continue
        raise VaultError(self._complaint(head))

    def knows(self, sealed: bytes) -> bool:
        """Return whether one of the keys has the id of the key that has sealed it."""
        return sealed[len(_VERSION) : _HEAD] in {key_id for key_id, _ in self._keys}

    def is_current(self, sealed: bytes) -> bool:
        """Return whether the first key has sealed it."""
        return sealed[:_HEAD] == _VERSION + self._keys[0][0]

    def _complaint(self, head: bytes) -> str:
        if head[len(_VERSION) :] in {key_id for key_id, _ in self._keys}:
            return "A stored secret was changed or moved: it does not open. Rotate it to get a new one."
        return _key_is_missing(head)


def _key_is_missing(sealed: bytes) -> str:
    wanted = sealed[len(_VERSION) : _HEAD]
    return (
        f"A stored secret was encrypted with a key (id {wanted.hex()}) that is not among the configured ones. "
        f"Add that key to MERCATO_ENCRYPTION_KEYS, or restore the file {FILE} of the data directory."
    )


def other_key(sealed: bytes, source: str) -> str:
    """Return what to do if the database is sealed with a key that isn't in the source: a setting or a file."""
    return (
        f"This database is encrypted with another key (id {sealed[len(_VERSION) : _HEAD].hex()}) than {source} has. "
        "All processes on one database share one key. Give this one the data directory of the others "
        f"(MERCATO_DATA_DIR), restore the file {FILE} from it, or set MERCATO_ENCRYPTION_KEYS to its content."
    )


def load_keys(
    settings_value: str | None, data_dir: Path | None, *, sealed: bytes | None = None
) -> list[bytes]:
    """Return the encryption keys from the settings, else from the data directory, where a missing one is created.

    No key is created when something is `sealed` already: the lost key must be restored in that file. Raises
    VaultError then, and if a key is unreadable or there is no data directory.
    """
    if settings_value:
        return _parse(settings_value.split(","), "MERCATO_ENCRYPTION_KEYS")
    if data_dir is None:
        raise VaultError(
            "Secrets are encrypted at rest, and with a database server the key must be given: set "
            f"MERCATO_ENCRYPTION_KEYS to {KEY_BYTES} random bytes in base64url, the same for all processes. Create "
            "one with: python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"
        )
    path = data_dir / FILE
    try:
        if not path.exists():
            if sealed is not None:
                raise VaultError(other_key(sealed, f"{path}, which doesn't exist,"))
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        return _parse(path.read_text().split(), str(path))
    except OSError as error:
        raise VaultError(f"The encryption key {path} cannot be used: {error.strerror}.") from error


def _parse(texts: Sequence[str], source: str) -> list[bytes]:
    keys = [_decoded(text.strip()) for text in texts]
    good = [key for key in keys if key is not None and len(key) == KEY_BYTES]
    if not good or len(good) != len(keys):
        raise VaultError(
            f"{source} holds a malformed key or none. It must hold keys of {KEY_BYTES} bytes in base64url, "
            "of which the first encrypts and all decrypt."
        )
    return good


def _decoded(text: str) -> bytes | None:
    try:
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _create(path: Path) -> None:
    """Create the key file atomically; if another process was faster, its key stays.

    The finished file is linked to its name, which fails if the name exists. A file created empty under that name
    could be read before it is written, or stay empty after a crash.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.urlsafe_b64encode(os.urandom(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _claim(unfinished, path)
    finally:
        unfinished.unlink()


def _claim(unfinished: Path, path: Path) -> None:
    try:
        path.hardlink_to(unfinished)
    except FileExistsError:
        return
    # Without this, a power cut could lose the key's file name but keep rows sealed with it.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
