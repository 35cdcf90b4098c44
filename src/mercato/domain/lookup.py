"""Whatever an operator pastes: the order, store, partner, delivery or refused request of an id, or a part of one."""

import re
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import Column, select

from mercato.domain.partners.accounts import get_partner_named
from mercato.domain.partners.credentials import get_key
from mercato.domain.partners.model import UnknownAccountError
from mercato.domain.webhooks.operators import find_row
from mercato.kernel.db.engine import Read
from mercato.kernel.db.prefixes import MIN_SHOWN, list_ids
from mercato.kernel.db.tables import deliveries, orders, partners, refused_requests, stores
from mercato.kernel.wire import parse_uuid

MAX_MATCHES: Final = 10
"""Things of one kind that are found."""

_DIGITS: Final = re.compile(rf"[0-9a-f]{{{MIN_SHOWN},32}}")
_IDS: Final[dict[str, Column[UUID]]] = {
    "order": orders.c.id,
    "store": stores.c.id,
    "partner": partners.c.id,
    "delivery": deliveries.c.id,
    "request": refused_requests.c.id,
}


class Match(Struct, frozen=True):
    """A thing that was found: its kind, such as order, and its id."""

    kind: str
    id: UUID


async def find_all(tx: Read, text: str) -> list[Match]:
    """Return what the text stands for: an id or 8 digits or more of its beginning, a webhook-id, the id of a refused
    request, a key (its partner), or a partner's name.
    """  # fmt: skip
    text = text.strip()
    matches = [*await _find_ids(tx, text), *await _find_requests(tx, text), *await _find_partner(tx, text)]
    return list(dict.fromkeys(matches))


async def _find_ids(tx: Read, text: str) -> list[Match]:
    digits = text.lower().replace("-", "")
    if _DIGITS.fullmatch(digits) is None:
        return []
    found = [
        Match(kind, id_)
        for kind, column in _IDS.items()
        for id_ in await list_ids(tx, column, digits, limit=MAX_MATCHES)
    ]
    webhook_id = parse_uuid(text)
    if not found and webhook_id is not None:
        delivery = await find_row(tx, webhook_id)
        return [] if delivery is None else [Match("delivery", delivery.id)]
    return found


async def _find_requests(tx: Read, text: str) -> list[Match]:
    """Return the refused requests of the id that their answers named. Clients choose it: several may have the same."""
    c = refused_requests.c
    newest = select(c.id).where(c.request_id == text).order_by(c.id.desc()).limit(MAX_MATCHES)
    return [Match("request", row.id) for row in await tx.all(newest)]


async def _find_partner(tx: Read, text: str) -> list[Match]:
    try:
        return [Match("partner", (await get_key(tx, text)).partner_id)]
    except UnknownAccountError:
        pass
    try:
        return [Match("partner", (await get_partner_named(tx, text)).id)]
    except UnknownAccountError:
        return []
