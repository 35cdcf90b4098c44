"""The text of API keys and signing secrets: made, recognised, and reduced to what is stored."""

import hashlib
import re
import secrets
import string
import zlib
from typing import Final

from mercato.outbound.signing import new_secret
from mercato.partners.model import Surface

ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Base 62: a double click selects a whole key, and no shell, header or URL needs it quoted."""

RANDOM_LENGTH: Final = 34
"""Random characters of a key: 202 bits, of which a prefix shows 36."""

CHECKSUM_LENGTH: Final = 6
"""Characters of the checksum: 32 bits in base 62."""

PREFIX_LENGTH: Final = 6
"""Random characters that lists show, enough to tell an organisation's keys apart."""

PATTERN: Final = rf"mk_({'|'.join(Surface)})_([0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}})"
"""What scanners for leaked secrets look for; `is_whole` sorts out what only looks like it."""

ACCESS_BEGIN: Final = "mt_"
"""What every access token begins with, and no key."""

_KEY: Final = re.compile(PATTERN.encode())
_ACCESS_BEGIN: Final = ACCESS_BEGIN.encode()
_BEGIN: Final = re.compile(rf"mk_({'|'.join(Surface)})_".encode())


try:
    # Python's own code: OpenSSL's looks its method up each time, which takes longer than the hash of so short a text.
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found]  # its name before Python 3.12
    except ImportError:
        _sha256 = hashlib.sha256


def new_key(surface: Surface) -> str:
    """Return a new key, `mk_<surface>_` and 40 characters of which the last 6 are a checksum."""
    text = f"mk_{surface}_" + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return text + _checksum(text)


def looks_like_key(token: bytes) -> bool:
    """Tell whether the token begins as keys do."""
    return _BEGIN.match(token) is not None


def looks_like_token(token: bytes) -> bool:
    """Tell whether this begins as access tokens do."""
    return token.startswith(_ACCESS_BEGIN)


def is_whole(token: bytes) -> bool:
    """Tell whether the token is a key to the last character: a mistyped or truncated one has a wrong checksum."""
    if _KEY.fullmatch(token) is None:
        return False
    text = token.decode()
    return text[-CHECKSUM_LENGTH:] == _checksum(text[:-CHECKSUM_LENGTH])


def prefix(key: str) -> str:
    """Return the part of a key that may be shown in lists and messages: `mk_commerce_3fZk9Q`."""
    mk, surface, characters = key.split("_", 2)
    return f"{mk}_{surface}_{characters[:PREFIX_LENGTH]}"


def digest(key: bytes) -> bytes:
    """Return what is stored of a key.

    SHA-256 and no slow password hash: with 202 random bits there is nothing to guess, and every cold request
    pays for it. Nor is a comparison in constant time needed: who times the look-up of a hash learns about
    the hash, from which no key can be worked out.
    """
    digested: bytes = _sha256(key).digest()
    return digested


def new_signing_secret() -> str:
    """Return a new signing secret as Standard Webhooks has them: `whsec_` and 32 random bytes in base64."""
    return new_secret(secrets.token_bytes)


def _checksum(text: str) -> str:
    """CRC-32: it is there to catch slips and false alarms, not forgers."""
    number, characters = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        characters = ALPHABET[digit] + characters
    return characters
