"""A stored quote, its states, and its refusals."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from mercato.features.orders.record import OrderRow
from mercato_contract import problems
from mercato_contract.money import to_text
from mercato_contract.placements import CheckedOrder, PlaceOrderRequest
from mercato_contract.refusals import Problem
from mercato_contract.texts import shown
from mercato_contract.wire import Wire, redacted, rfc3339

LIFETIME: Final = timedelta(minutes=15)
"""How long a quote can be placed: as long as the token in it."""

KEPT: Final = timedelta(days=30)
"""How long a quote can be read that was never placed. It has nothing of its customer any more."""


class QuoteState(StrEnum):
    """What became of a quote. One that is `quoted` or `pending` when it expires stays so."""

    QUOTED = "quoted"
    PENDING = "pending"
    DECLINED = "declined"
    PLACED = "placed"


OPEN: Final = frozenset({QuoteState.QUOTED, QuoteState.PENDING})
"""The states in which a quote can still be placed."""


@redacted("request", "order", "first")
class QuoteContent(Wire, frozen=True, kw_only=True):
    """The order of a quote: the request that places it, its payment left out, and the order as its store priced it.

    `first` is the order as it was quoted, if it was priced again since.
    """

    request: PlaceOrderRequest
    order: CheckedOrder
    first: CheckedOrder | None = None


@redacted("content", "payment", "approval")
class QuoteRow(Struct, frozen=True, kw_only=True):
    """A stored quote. `total` is in minor units, `content` and `payment` are sealed."""

    id: UUID
    partner_id: UUID
    key_id: UUID
    store_id: UUID
    currency: str
    total: int
    state: QuoteState
    content: bytes | None
    payment: bytes | None
    approval: bytes | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    order_id: UUID | None

    @property
    def total_text(self) -> str:
        return to_text(self.total, self.currency)

    def is_over(self, now: datetime) -> bool:
        """Return whether the quote can't be placed any more because of its age, or because its customer was erased."""
        return now >= self.expires_at or self.content is None


class AskedApproval(Struct, frozen=True, kw_only=True):
    """A quote about which a person was asked, for the list of its storefront.

    `store` is None once it is deleted, and `total` what the order costs.
    """

    quote_id: UUID
    agent_id: UUID
    agent: str
    store: str | None
    currency: str
    total: int
    state: QuoteState
    asked_at: datetime
    expires_at: datetime
    order_id: UUID | None

    @property
    def total_text(self) -> str:
        return f"{to_text(self.total, self.currency)} {self.currency}"

    def stage(self, now: datetime) -> str:
        """Return what became of it, in a word."""
        if self.state is not QuoteState.PENDING:
            return self.state.value
        return "waits" if now < self.expires_at else "expired"


class QuoteWarning(Wire, frozen=True):
    """What may go wrong with an order that can be placed."""

    code: str
    message: str


class NewQuote(Struct, frozen=True, kw_only=True):
    """A new quote. `order` has its amounts, and when it will be ready."""

    id: UUID
    expires_at: datetime
    order: CheckedOrder
    warnings: tuple[QuoteWarning, ...]


@redacted("payment")
class QuotePlacement(Struct, frozen=True):
    """The request to place a quote: its total as the key was told it, and the payment for the store as JSON."""

    total: str
    payment: Raw | None = None


@redacted("secret")
class ApprovalRequest(Struct, frozen=True):
    """A person must approve the order first, on the page whose address has the secret."""

    quote_id: UUID
    secret: str
    expires_at: datetime
    total: str
    currency: str


class FoundQuote(Struct, frozen=True, kw_only=True):
    """What became of a quote. `order` is there once it is placed; nothing else is known of an old one then.

    `approval` is there while a person is asked, for the key that asked.
    """

    id: UUID
    quote: QuoteRow | None = None
    order: OrderRow | None = None
    approval: ApprovalRequest | None = None


class QuoteNotFound(Problem):
    """There is no such quote of this partner, or it belongs to another of its keys."""

    kind = problems.QUOTE_NOT_FOUND

    def __init__(self, quote_id: object) -> None:
        super().__init__(
            f"This key has no quote {shown(quote_id)}. A quote can be placed only with the key that got it. Quote the "
            "order again."
        )


class QuoteExpired(Problem):
    """The quote is older than its lifetime, or its customer was erased."""

    kind = problems.QUOTE_EXPIRED

    def __init__(self, quote: QuoteRow) -> None:
        super().__init__(
            f"The quote was valid until {rfc3339(quote.expires_at)}, and nothing was placed. Quote the order again, "
            "and show the new total."
        )


class QuoteDeclined(Problem):
    """A person was asked, and declined."""

    kind = problems.QUOTE_DECLINED

    def __init__(self, quote: QuoteRow) -> None:
        when = "" if quote.decided_at is None else f" at {rfc3339(quote.decided_at)}"
        super().__init__(
            f"A person declined this order{when}, and nothing was placed. Don't quote it again unless that person asks "
            "for it."
        )
