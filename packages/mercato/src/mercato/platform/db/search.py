"""What people type to find rows: the beginning or the end of an id, and texts in any letter case.

The beginning of an id stands for it while no other id of its table begins so; so do its last eight digits.
"""

import re
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Column, ColumnElement, select

from mercato.platform.db.engine import Read
from mercato.platform.db.types import id_end

MIN_SHOWN: Final = 8
"""Hexadecimal digits of the shortest id that is shown."""

_DIGITS: Final = 32
_PART: Final = re.compile(rf"[0-9a-f]{{1,{_DIGITS}}}")
_DASHES: Final = (8, 12, 16, 20)
"""Digits before each dash of a UUID."""


class UnknownIdError(Exception):
    """No id begins or ends with the text, or more than one does; the message says which."""


async def get_id(tx: Read, ids: Column[UUID], text: str, *, noun: str) -> UUID:
    """Return the id that begins with the text, with or without dashes, or whose last eight digits it is.

    Raises UnknownIdError.
    """
    digits = text.strip().lower().replace("-", "")
    found = await list_ids(tx, ids, digits, limit=2) if _PART.fullmatch(digits) else []
    if not found and _PART.fullmatch(digits) and len(digits) == MIN_SHOWN:
        found = await list_ids_ending(tx, ids, digits, limit=2)
    if not found:
        raise UnknownIdError(f"There is no {noun} {text}. Lists show the ids: mercato {noun} list")
    if len(found) > 1:
        raise UnknownIdError(f"More than one {noun} fits {text}. Write more of the id.")
    return found[0]


async def list_ids(
    tx: Read, ids: Column[UUID], digits: str, *conditions: ColumnElement[bool], limit: int
) -> list[UUID]:
    """Return the first ids that begin with the hexadecimal digits, of rows that meet the conditions."""
    first, last = (UUID(digits.ljust(_DIGITS, filler)) for filler in "0f")
    found = select(ids).where(ids.between(first, last), *conditions).order_by(ids)
    return [row[0] for row in await tx.all(found.limit(limit))]


_MAX_ENDING: Final = 100
"""Ids with the same last eight digits that are looked at. Among 100 million ids there are hardly ever three."""


async def list_ids_ending(
    tx: Read, ids: Column[UUID], digits: str, *conditions: ColumnElement[bool], limit: int
) -> list[UUID]:
    """Return the newest ids whose last eight digits are these, of rows that meet the conditions; by an index."""
    # Without the conditions, for each of which a database could prefer another index.
    ending = [row[0] for row in await tx.all(select(ids).where(id_end(ids) == digits).limit(_MAX_ENDING))]
    if not ending:
        return []
    found = select(ids).where(ids.in_(ending), *conditions).order_by(ids.desc())
    return [row[0] for row in await tx.all(found.limit(limit))]


async def shorten(tx: Read, ids: Column[UUID], shown: Iterable[UUID]) -> dict[UUID, str]:
    """Return the shortest beginning of each id that no other id of the table has; all are of one length."""
    wanted = list(shown)
    if not wanted:
        return {}
    others = ids.table.alias()
    other: Any = others.c[ids.name]
    before = select(other).where(other < ids).order_by(other.desc()).limit(1).scalar_subquery()
    after = select(other).where(other > ids).order_by(other).limit(1).scalar_subquery()
    rows = await tx.all(select(ids, before, after).where(ids.in_(wanted)))
    pairs = ((own, near) for own, *neighbours in rows for near in neighbours if near is not None)
    digits = max((MIN_SHOWN, *(_shared_digits(own, near) + 1 for own, near in pairs)))
    length = digits + sum(digits > place for place in _DASHES)
    return {id_: str(id_)[:length] for id_ in wanted}


def _shared_digits(first: UUID, second: UUID) -> int:
    return (128 - (first.int ^ second.int).bit_length()) // 4


ESCAPE: Final = "\\"

_SPECIAL: Final = re.compile(r"([\\%_])")
"""The wildcards of LIKE, and its escape character."""

_NON_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
"""Databases lower these characters differently."""


def pattern_of(text: str) -> str:
    """Return the pattern of a column's lower-case text; it fits more than the text, so compare what is found."""
    return _NON_ASCII.sub("%", _SPECIAL.sub(r"\\\1", text)).lower()
