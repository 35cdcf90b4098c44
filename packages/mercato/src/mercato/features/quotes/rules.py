"""What a quote warns of, and the secrets of approval pages. Pure."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from mercato.features.orders.errors import OrderTokenInvalid, OrderTotalDifferent
from mercato.features.partners import model
from mercato.features.partners.model import Caller
from mercato.features.quotes.model import QuoteRow, QuoteWarning
from mercato.features.stores.model import StoreRow
from mercato.features.stores.views import ORDERS_UNSEEN, availability_of
from mercato_catalog.model import CompiledCatalog
from mercato_contract.placements import CheckedOrder, OrderCore, PlaceOrderRequest
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.signing import hmac_sha256
from mercato_contract.stores import OrderHandling
from mercato_contract.texts import count_of
from mercato_contract.wire import parse_instant, redacted

ACCEPTED_BY_HAND: Final = "ACCEPTED_BY_HAND"
CLOSES_SOON: Final = "CLOSES_SOON"
APPROVAL_REQUIRED: Final = "APPROVAL_REQUIRED"

EXTRAS: Final = ("Fees", "Promotions", "Taxes", "Adjustments", "Tip")
"""The amounts beside the lines, by the names of their members."""

SOON: Final = timedelta(minutes=30)

_TIME: Final = "/fulfillment/scheduledTime"
_AMOUNTS: Final = "/amounts/"

PURPOSE: Final = "mercato approval page"
"""The purpose of the derived keys from which the secrets of approval pages are made."""


def needs_approval(caller: Caller, total: int) -> bool:
    """Return whether a person must approve an order of this total, in minor units, that the caller places."""
    return caller.agent is not None and model.needs_approval(caller.agent, total)


def warnings_of(
    order: CheckedOrder, store: StoreRow, catalog: CompiledCatalog, *, now: datetime, needs_approval: bool
) -> tuple[QuoteWarning, ...]:
    """Return what may still prevent the order, or surprise its customer."""
    found: list[QuoteWarning] = []
    at = parse_instant(order.fulfillment.scheduled_time or "") or now
    hours = availability_of(store, catalog, at)
    closes = None if hours.closes_at is None else parse_instant(hours.closes_at)
    if closes is not None and closes - at <= SOON:
        minutes = max(int((closes - at).total_seconds() // 60), 0)
        found.append(
            QuoteWarning(
                code=CLOSES_SOON,
                message=f"The store closes {count_of(minutes, 'minute')} after the order is due, at {hours.closes_at}.",
            )
        )
    match store.handling:
        case OrderHandling.AUTOMATIC:
            message = "Nobody at the store is asked: the service accepts its orders, and the store reads them later."
            found.append(QuoteWarning(code=ORDERS_UNSEEN, message=message))
        case OrderHandling.MANUAL:
            within = count_of(store.accept_minutes, "minute")
            message = f"A person at the store accepts the order within {within}, else it is cancelled."
            found.append(QuoteWarning(code=ACCEPTED_BY_HAND, message=message))
    if needs_approval:
        found.append(
            QuoteWarning(
                code=APPROVAL_REQUIRED,
                message="A person must approve this order: placing it returns the address of a page to show them.",
            )
        )
    return tuple(found)


def changed_since(quoted: OrderCore | PlaceOrderRequest, problem: Problem) -> Problem:
    """Return why a quoted order can't be placed, if the problem is of a request that only the service has seen.

    The order had no such fault when it was quoted: its time has passed since, or its store's currency is another one.
    """
    pointers = [one.pointer or "" for one in problem.errors]
    match problem:
        case ValidationFailed() if _TIME in pointers:
            at = quoted.fulfillment.scheduled_time
            return ValidationFailed(
                f"The order was quoted for {at}, which has passed. Quote it for a later time."
            )
        case OrderTokenInvalid():
            pass
        case ValidationFailed() if any(pointer.startswith(_AMOUNTS) for pointer in pointers):
            pass
        case _:
            return problem
    return OrderTotalDifferent(
        "The store sells in another currency than when the order was quoted. Quote it again, and show the customer the "
        "new total."
    )


class Change(Struct, frozen=True):
    """What an order of the same lines costs now, and what it cost when it was quoted; None for nothing."""

    name: str
    before: str | None
    after: str | None


def differences(first: CheckedOrder, now: CheckedOrder) -> tuple[Change, ...]:
    """Return what changed in what an order costs, the total first."""
    before, after = _costs(first), _costs(now)
    found = [(key, before.get(key), after.get(key)) for key in dict.fromkeys([*before, *after])]
    return tuple(Change(name, old, new) for (_, name), old, new in found if old != new)


def _costs(order: CheckedOrder) -> dict[tuple[int, str], str]:
    """Return the amounts of an order by place and name: two lines may have one name."""
    amounts = order.amounts
    assert not isinstance(amounts, UnsetType), "an order without errors has a price"
    named = [("Total", f"{amounts.total} {amounts.currency}")]
    named += [(name, getattr(amounts, name.lower())) for name in EXTRAS]
    named += [
        (line.name or "An item without a name", line.amounts.total)
        for line in order.cart.line_items
        if line.amounts is not UNSET
    ]
    return {(place, name): amount for place, (name, amount) in enumerate(named)}


@redacted("keys")
class ApprovalSecrets(Struct, frozen=True):
    """Makes the secret of an approval page from its quote's id, so that a repeat gets the same address.

    The first key makes new ones; the others are earlier ones. The database has hashes of the secrets alone.
    """

    keys: Sequence[bytes]

    def new(self, quote_id: UUID) -> str:
        """Return the secret: 43 characters of base64url."""
        return _secret(self.keys[0], quote_id)

    def find(self, quote: QuoteRow) -> str:
        """Return the secret of a quote's approval page."""
        made = [_secret(key, quote.id) for key in self.keys]
        stored = quote.approval or b""
        return next((secret for secret in made if compare_digest(self.hash_of(secret), stored)), made[0])

    @staticmethod
    def hash_of(secret: str) -> bytes:
        return hashlib.sha256(secret.encode()).digest()


def _secret(key: bytes, quote_id: UUID) -> str:
    return base64.urlsafe_b64encode(hmac_sha256(key, quote_id.bytes)).rstrip(b"=").decode()
