"""What became of what a customer wanted."""

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
        """Return it of an order's state."""
        return cls(state) if state in {cls.COMPLETED, cls.CANCELLED} else cls.PLACED

    @property
    def is_answer(self) -> bool:
        """Tell whether a service that works may answer so."""
        return self not in {Outcome.UNANSWERED, Outcome.WRONG}


@dataclass(slots=True)
class Purchase:
    """One customer's. `attempts` counts how often the order was sent; `codes` say why it was refused."""

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
        """Note the order; one that costs something else than was agreed on is wrong."""
        self.order_id, self.partner_order_id = order["orderId"], order["partnerOrderId"]
        agreed, self.total = self.total, order["amounts"]["total"]
        if agreed in {None, self.total}:
            return self.ended(Outcome.PLACED)
        return self.ended(Outcome.WRONG, [f"it was to cost {agreed}"])

    def ended(self, outcome: Outcome, codes: Iterable[str] = ()) -> Self:
        """Note how it ended, and why."""
        self.outcome, self.codes = outcome, tuple(codes)
        return self
