"""Requests and responses as reports show them: shortened, and without secrets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from mercato.features.webhooks.model import excerpt

MAX_BODY: Final = 600
"""Bytes of a body that are shown."""

MAX_HEADER: Final = 120
SHOWN_SIGNATURE: Final = 6
"""Characters that tell two signatures apart."""

_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_OMITTED_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "user-agent", "date", "server", "content-length"}
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes these secrets from everything that it formats."""

    secrets: tuple[str, ...] = field(repr=False)

    def message(self, first_line: str, headers: Mapping[str, str], body: bytes) -> str:
        """Return a request or a response: the first line, the headers that matter, the start of the body."""
        lines = [self.text(first_line)]
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS:
                lines.append(f"{name}: ***")
            elif name.lower() not in _OMITTED_HEADERS:
                lines.append(f"{name}: {self._header(name.lower(), value)}")
        if body:
            lines += ["", _cut(excerpt(body, hidden=self.secrets))]
        return "\n".join(lines)

    def text(self, text: str) -> str:
        return excerpt(text.encode(), hidden=self.secrets)

    def _header(self, name: str, value: str) -> str:
        text = self.text(value)
        if name == "webhook-signature":
            # A signature reveals no secret, but what it signs could be sent again with it for some minutes.
            return " ".join(_cut_signature(part) for part in text.split(" "))
        return text if len(text) <= MAX_HEADER else text[:MAX_HEADER] + "…"


def without_credentials(url: str) -> str:
    """Return a URL without what could grant access: its user, its query and its fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "***" if parts.query else "", ""))


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= MAX_BODY else raw[:MAX_BODY].decode("utf-8", "ignore") + "…"


def _cut_signature(part: str) -> str:
    version, comma, value = part.partition(",")
    return f"{version}{comma}{value[:SHOWN_SIGNATURE]}…" if len(value) > SHOWN_SIGNATURE else part
