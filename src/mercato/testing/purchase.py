"""The outcome of one customer's purchase."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Outcome(StrEnum):
    """How a purchase ended, or where it stands."""

    PLACED = "placed"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    WRONG = "wrong"

    @classmethod
    def of(cls, state: str) -> "Outcome":
        """Return the outcome for an order's state."""
        return cls(state) if state in {cls.COMPLETED, cls.CANCELLED} else cls.PLACED

    @property
    def is_answer(self) -> bool:
        """Tell whether a correct service may answer so."""
        return self not in {Outcome.UNANSWERED, Outcome.WRONG}


@dataclass(slots=True)
class Purchase:
    """One purchase. `attempts` counts how often the order was sent; `codes` say why it was refused."""

    number: int
    store: str
    act: str
    outcome: Outcome = Outcome.UNANSWERED
    order_id: str = ""
    partner_order_id: str | None = None
    total: str | None = None
    attempts: int = 0
    codes: tuple[str, ...] = ()

    def placed(self, order: Any) -> Self:
        """Record the placed order; it is wrong if its total isn't the agreed one."""
        self.order_id, self.partner_order_id = order["orderId"], order["partnerOrderId"]
        agreed, self.total = self.total, order["amounts"]["total"]
        if agreed in {None, self.total}:
            return self.ended(Outcome.PLACED)
        return self.ended(Outcome.WRONG, [f"it was to cost {agreed}"])

    def ended(self, outcome: Outcome, codes: Iterable[str] = ()) -> Self:
        """Record the outcome and its codes."""
        self.outcome, self.codes = outcome, tuple(codes)
        return self
