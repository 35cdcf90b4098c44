"""The SQL of searches, put together from parts: one statement for each shape of a search, made once.

Three ways lead to the hits: by place over an index of cells that holds everything a search looks at; by the full-text
index; and by name over another such index. The first two number all hits and order what they found; the last
walks in order, and its count is added up from the opening hours.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ARRAY, BigInteger, Double, Text, TextClause, bindparam, text
from sqlalchemy.types import TypeEngine

from mercato.db.clock import Dialect


class Shape(NamedTuple):
    """What kinds of conditions a search has; `mode` is the column of the fulfilment type."""

    dialect: Dialect
    place: bool
    words: bool
    tiers: int
    mode: str | None
    opened: bool

    @property
    def by_name(self) -> bool:
        return not (self.place or self.words)


_AWAY: Final = "((s.x - :x) * (s.x - :x) + (s.y - :y) * (s.y - :y) + (s.z - :z) * (s.z - :z))"

# A CROSS JOIN is SQLite's word for "in this order".
_BY_PLACE: Final = {
    "sqlite": "json_each(:ranges) r CROSS JOIN store_search s "
    "ON s.cell BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')",
    "postgresql": "unnest(:lows, :highs) AS r (low, high) "
    "JOIN store_search s ON s.cell BETWEEN r.low AND r.high",
}
_BY_WORDS: Final = {
    "sqlite": "store_words CROSS JOIN store_search s ON s.number = store_words.rowid",
    "postgresql": "store_search s",
}
_MATCHES: Final = {
    "sqlite": "store_words MATCH :words",
    "postgresql": "s.words @@ CAST(:words AS tsquery)",
}
_OPEN: Final = {
    # The sign keeps SQLite from walking by this column.
    "sqlite": "s.paused_until <= :now AND +s.hours_key IN (SELECT value FROM json_each(:keys))",
    "postgresql": "s.paused_until <= :now AND s.hours_key = ANY(:keys)",
}
_POSITION: Final = {"sqlite": "instr", "postgresql": "strpos"}
_SOLD_OUT: Final = {
    "sqlite": "group_concat(i.item_id)",
    "postgresql": "string_agg(CAST(i.item_id AS text), ',')",
}

_TYPES: Final[dict[str, TypeEngine[Any]]] = {
    "x": Double(),
    "y": Double(),
    "z": Double(),
    "most": Double(),
    "lows": ARRAY(BigInteger()),
    "highs": ARRAY(BigInteger()),
    "ranges": Text(),
    "words": Text(),
    "now": BigInteger(),
    "limit": BigInteger(),
    "offset": BigInteger(),
}


@cache
def page(shape: Shape) -> TextClause:
    """Return rows of (total, away, paused_until, card, timezone, spans, sold_out) in order.

    `total` is null where it is known already, and there is at least one row where it is not, of nulls but for it.
    """
    order = "p.away, p.number" if shape.place else "p.tier, p.name_key, p.number"
    total = "SELECT CAST(NULL AS BIGINT) AS total"
    if not shape.opened:
        total = "SELECT count(*) AS total FROM hits"
        if shape.by_name:
            total = f"SELECT coalesce(sum({shape.mode or 'stores'}), 0) AS total FROM opening_hours"  # noqa: S608  # a column
    return _statement(
        shape,
        f"""
        WITH hits AS ({_hits(shape)}),
        page AS (SELECT * FROM hits p ORDER BY {order} LIMIT :limit OFFSET :offset)
        SELECT t.total, p.away, p.paused_until, c.card, h.timezone, h.spans,
          (SELECT {_SOLD_OUT[shape.dialect]} FROM sold_out_items i
           WHERE i.store_id = c.store_id AND (i.until IS NULL OR i.until > :now)) AS sold_out
        FROM ({total}) t
        LEFT JOIN page p ON 1 = 1
        LEFT JOIN store_cards c ON c.number = p.number
        LEFT JOIN opening_hours h ON h.key = p.hours_key
        ORDER BY {order}
        """,  # noqa: S608  # parts of this module
    )


@cache
def hours(shape: Shape) -> TextClause:
    """Return rows of (key, timezone, spans, stores): the opening hours of all hits that are not paused."""
    if shape.by_name:
        mode = f" AND {shape.mode}" if shape.mode else ""
        return _statement(
            shape,
            f"""
            SELECT h.key, h.timezone, h.spans, h.{shape.mode or "stores"} - coalesce(g.paused, 0)
            FROM opening_hours h LEFT JOIN (
              SELECT hours_key, count(*) AS paused FROM store_search
              WHERE paused_until > 0 AND paused_until > :now{mode} GROUP BY hours_key
            ) g ON g.hours_key = h.key
            """,  # noqa: S608  # parts of this module
        )
    return _statement(
        shape,
        f"""
        SELECT h.key, h.timezone, h.spans, g.stores
        FROM (SELECT hours_key, count(*) AS stores FROM ({_hits(shape._replace(opened=False))}) a
              WHERE a.paused_until <= :now GROUP BY hours_key) g
        JOIN opening_hours h ON h.key = g.hours_key
        """,  # noqa: S608  # parts of this module
    )


def _hits(shape: Shape) -> str:
    away, tier = (_AWAY, "0") if shape.place else ("CAST(NULL AS FLOAT)", _tier(shape))
    source = _BY_WORDS if shape.words else _BY_PLACE if shape.place else {shape.dialect: "store_search s"}
    conditions = [
        *([_MATCHES[shape.dialect]] if shape.words else []),
        *([f"{_AWAY} <= :most"] if shape.place else []),
        *([f"s.{shape.mode}"] if shape.mode else []),
        *([_OPEN[shape.dialect]] if shape.opened else []),
    ]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    name = "" if shape.place else ", s.name_key"
    return (
        f"SELECT s.number, s.hours_key, s.paused_until, {away} AS away, {tier} AS tier{name} "  # noqa: S608  # parts of this module
        f"FROM {source[shape.dialect]} {where}"
    )


def _tier(shape: Shape) -> str:
    """Return 0 for a store whose name is what was asked for, and 1 for one that has it elsewhere."""
    parts = [f"{_POSITION[shape.dialect]}(s.name_key, :part{n}) > 0" for n in range(shape.tiers)]
    return f"CASE WHEN {' AND '.join(parts)} THEN 0 ELSE 1 END" if parts else "0"


def _statement(shape: Shape, sql: str) -> TextClause:
    made = text(sql)
    named = dict(made._bindparams)  # noqa: SLF001  # which of the parts' parameters it has
    keys: TypeEngine[Any] = ARRAY(BigInteger) if shape.dialect == "postgresql" else Text()
    types = _TYPES | {"keys": keys}
    return made.bindparams(*(bindparam(name, type_=types.get(name, Text())) for name in named))
