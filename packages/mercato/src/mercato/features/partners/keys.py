"""The text of API keys and signing secrets: generate, recognise and hash it."""

import hashlib
import re
import secrets
import string
import zlib
from typing import Final

from mercato.features.partners.model import Surface
from mercato_contract.signing import new_secret

ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Base 62: a double click selects a whole key, and no shell, header or URL needs it quoted."""

RANDOM_LENGTH: Final = 34
"""Random characters of a key: 202 bits, of which a prefix shows 36."""

CHECKSUM_LENGTH: Final = 6
"""Characters of the checksum: 32 bits in base 62."""

PREFIX_LENGTH: Final = 6
"""Random characters that lists show, enough to distinguish an organisation's keys."""

PATTERN: Final = rf"mk_({'|'.join(Surface)})_([0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}})"
"""The pattern for secret scanners; `is_whole` also verifies the checksum."""

ACCESS_BEGIN: Final = "mt_"
"""The prefix of access tokens; no key begins with it."""

_KEY: Final = re.compile(PATTERN.encode())
_ACCESS_BEGIN: Final = ACCESS_BEGIN.encode()
_BEGIN: Final = re.compile(rf"mk_({'|'.join(Surface)})_".encode())


def new_key(surface: Surface) -> str:
    """Return a new key, `mk_<surface>_` and 40 characters of which the last 6 are a checksum."""
    text = f"mk_{surface}_" + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return text + _checksum(text)


def looks_like_key(token: bytes) -> bool:
    return _BEGIN.match(token) is not None


def looks_like_token(token: bytes) -> bool:
    return token.startswith(_ACCESS_BEGIN)


def is_whole(token: bytes) -> bool:
    """Return whether the token has a key's form and checksum: a mistyped or truncated one hasn't."""
    if _KEY.fullmatch(token) is None:
        return False
    text = token.decode()
    return text[-CHECKSUM_LENGTH:] == _checksum(text[:-CHECKSUM_LENGTH])


def malformed_reason(token: bytes) -> str:
    """Return why the text isn't a whole key, for its sender."""
    if not looks_like_key(token):
        return (
            "The token is not a key of this service: keys begin with mk_commerce_ or mk_marketfront_, "
            "and access tokens with mt_."
        )
    return "The key is not complete, or a character of it is wrong. Copy it again from where it is stored."


def prefix(key: str) -> str:
    """Return the part of a key that may be shown in lists and messages: `mk_commerce_3fZk9Q`."""
    mk, surface, characters = key.split("_", 2)
    return f"{mk}_{surface}_{characters[:PREFIX_LENGTH]}"


def digest(key: bytes) -> bytes:
    """Return the hash that is stored of a key.

    SHA-256 rather than a slow password hash: 202 random bits can't be guessed, and every cold request computes it.
    The comparison needn't take constant time: timing the lookup reveals bits of the hash, not of the key.
    """
    return hashlib.sha256(key).digest()


def new_signing_secret() -> str:
    """Return a new signing secret as Standard Webhooks has them: `whsec_` and 32 random bytes in base64."""
    return new_secret(secrets.token_bytes)


def _checksum(text: str) -> str:
    """CRC-32: it catches typing errors and false alarms, not forgeries."""
    number, characters = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        characters = ALPHABET[digit] + characters
    return characters
