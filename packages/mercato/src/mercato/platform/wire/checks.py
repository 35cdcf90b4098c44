"""Checks that types can't express: each returns what is wrong, or None."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mercato.platform.errors import ValidationFailed
from mercato_contract.problems import Reason

_HTTP_URI: Final = re.compile(r"https?://[^\s/?#\\]+[^\s\\]*", re.IGNORECASE)
_HOST_PORT: Final = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")

_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


def uri_fault(text: str, name: str) -> str | None:
    """Return what is wrong with the text of an absolute http(s) URI, or None."""
    if _CONTROL.search(text) or not _HTTP_URI.fullmatch(text):
        return f"{name} must be an absolute http or https URI, like https://example.com/path."
    try:
        parts = urlsplit(text)
    except ValueError:
        return f"{name} is not a URI: its host cannot be read."
    if not parts.hostname:
        return f"{name} needs a host name."
    if not _HOST_PORT.fullmatch(parts.netloc.rpartition("@")[2]):
        return f"{name} is not a URI: what follows its host is not a port number."
    if not _has_usable_port(parts):
        return f"{name} has a port that does not exist. Use a port from 1 to 65535, or none."
    return None


def _has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # above 65535
        return False


def refuse(checks: Sequence[tuple[str, str | None]]) -> None:
    """Raise one ValidationFailed for every (pointer, fault) whose fault is not None."""
    code = ValidationFailed.code
    faults = [Reason(code=code, message=fault, pointer=at) for at, fault in checks if fault is not None]
    if faults:
        detail = (
            faults[0].message if len(faults) == 1 else f"{len(faults)} values are not allowed: see errors."
        )
        raise ValidationFailed(detail, errors=faults)
