"""Catalogs on a web server: each document with its ETag, 304 for who has it already."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mercato.testing.prices import Menu

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Document:
    """A hosted document."""

    body: bytes
    etag: str
    value: Any


class Shelf:
    """Documents by path. One is replaced by putting another under its path."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._menu: Menu | None = None
        self.onboarding_id: UUID | None = None

    def put(self, path: str, value: Any) -> Document:
        """Put a document there; bytes are hosted as they are, whatever they hold."""
        body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        document = Document(body, etag_of(body), _read(body) if isinstance(value, bytes) else value)
        self._documents[path] = document
        self._menu = None
        return document

    def find(self, path: str) -> Document | None:
        """Return the document of that path."""
        return self._documents.get(path)

    @property
    def paths(self) -> list[str]:
        """Return the paths in the order of their first documents."""
        return list(self._documents)

    def known_as(self, onboarding_id: UUID) -> None:
        """Know from now on what the service makes of ids that are no UUIDs."""
        self.onboarding_id, self._menu = onboarding_id, None

    @property
    def menu(self) -> Menu:
        """Return what all documents together sell."""
        if self._menu is None:
            menu = Menu()
            for document in self._documents.values():
                if isinstance(document.value, dict) and isinstance(document.value.get("items"), dict):
                    menu |= Menu.of(document.value, onboarding_id=self.onboarding_id)
            self._menu = menu
        return self._menu


def etag_of(body: bytes) -> str:
    """Return a strong tag, another for every other content."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def is_known(tags: str | None, etag: str) -> bool:
    """Tell whether an If-None-Match names the tag."""
    named = [] if tags is None else [tag.strip().removeprefix("W/") for tag in tags.split(",")]
    return ANY in named or etag in named


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
