"""What was sent and received, for reports: shortened, and without secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mercato.webhooks.model import excerpt

MOST_BODY: Final = 600
"""Bytes of a body that are shown."""

MOST_HEADER: Final = 120

_HIDDEN: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_NOISE: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "user-agent", "date", "server", "content-length"}
)


@dataclass(frozen=True, slots=True)
class Shower:
    """Writes messages down. `hidden` are texts that stand nowhere in a report."""

    hidden: tuple[str, ...]

    def request(self, line: str, headers: Mapping[str, str], body: bytes) -> str:
        """Return a request: its first line, the headers that matter, the beginning of its body."""
        return self._message(line, headers, body)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> str:
        """Return an answer likewise."""
        return self._message(str(status), headers, body)

    def text(self, text: str) -> str:
        """Return words with what is hidden blotted out."""
        return excerpt(text.encode(), hidden=self.hidden)

    def _message(self, line: str, headers: Mapping[str, str], body: bytes) -> str:
        lines = [self.text(line)]
        for name, value in headers.items():
            low = name.lower()
            if low not in _NOISE:
                lines.append(f"{name}: {'***' if low in _HIDDEN else self._header(low, value)}")
        shown = excerpt(body, hidden=self.hidden)
        if shown:
            lines += ["", cut_bytes(shown, MOST_BODY)]
        return "\n".join(lines)

    def _header(self, name: str, value: str) -> str:
        text = self.text(value)
        if name == "webhook-signature":
            # A signature opens nothing, but what it signs could be sent again with it for some minutes.
            return " ".join(_signature(part) for part in text.split(" "))
        return text if len(text) <= MOST_HEADER else text[:MOST_HEADER] + "…"


def cut_bytes(text: str, most: int) -> str:
    """Return the beginning of a text, and how much more there was."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    return raw[:most].decode("utf-8", "ignore") + "…"


def address(url: str) -> str:
    """Return a URL without what could grant access: its user, its query and its fragment."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "***" if parts.query else "", ""))


def hidden_of(*texts: str | None) -> tuple[str, ...]:
    """Return the texts that are to be hidden: those that there are."""
    return tuple(text for text in texts if text)


def listed(texts: Sequence[str]) -> str:
    """Return texts as one line."""
    return ", ".join(texts)


def _signature(part: str) -> str:
    name, comma, value = part.partition(",")
    return f"{name}{comma}{value[:6]}…" if len(value) > 6 else part  # noqa: PLR2004  # enough to tell them apart
