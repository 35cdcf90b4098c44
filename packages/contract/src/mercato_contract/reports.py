"""The report of orders: a row for each order that was placed in a period of days, and what they come to."""

import re
from datetime import date
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, field

from mercato_contract.carts import Amount
from mercato_contract.orders import OrderState, OrderStatus
from mercato_contract.stores import timezone_fault
from mercato_contract.wire import Instant, Wire, validator

MAX_DAYS: Final = 366
"""Days of one report."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def parse_date(text: str) -> date | None:
    """Return the day of a text like `2026-03-01`; None for any other."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def date_fault(name: str, text: str) -> str | None:
    """Return why the text isn't a day, or None."""
    return None if parse_date(text) is not None else f"{name} must be a date, like 2026-03-01."


Timezone = Annotated[
    str,
    Meta(
        max_length=64,
        description="In which days begin, like `Europe/Berlin`; without it, the one that the account's stores have in "
        "common, or `UTC`.",
        extra=validator(timezone_fault),
    ),
]
"""The query parameter `timezone`."""


class OrderReportQuery(Wire):
    """Which orders a report is about."""

    from_: Annotated[
        str,
        Meta(
            description="The first day, like `2026-03-01`.",
            extra_json_schema={"format": "date"},
            examples=["2026-03-01"],
            extra=validator(lambda text: date_fault("from", text)),
        ),
    ] = field(name="from")
    to: Annotated[
        str,
        Meta(
            description=f"The last day, which is included: at most {MAX_DAYS} days in all.",
            extra_json_schema={"format": "date"},
            examples=["2026-03-31"],
            extra=validator(lambda text: date_fault("to", text)),
        ),
    ]
    store_id: Annotated[UUID, Meta(description="Only orders of this store.")] | None = None
    timezone: Timezone | None = None


class ReportAmounts(Wire, kw_only=True):
    """What was sold. `net` = gross - promotions + adjustments - refunds; `total` = net + fees + taxes + tips.

    `gross` is what the items cost, `adjustments` what their prices changed by, at the placement or by a substitution;
    `fees` and `refunds` have what the merchant charged and gave back afterwards. A cancelled order counts zero in each.
    """

    currency: str
    gross: Amount
    promotions: Amount
    adjustments: Amount
    refunds: Amount
    net: Amount
    fees: Amount
    taxes: Amount
    tips: Amount
    total: Amount


class ReportedOrder(ReportAmounts, kw_only=True):
    """An order of a report: nothing in it is the customer's, so it is the same once they are erased.

    `placedTotal` is `amounts.total` of the order, also of one that was cancelled.
    """

    order_id: UUID
    date: Annotated[
        str, Meta(description="The day on which it was placed.", extra_json_schema={"format": "date"})
    ]
    created_at: Instant
    store_id: UUID
    partner_store_id: str
    partner_order_id: str | None
    state: OrderState
    status: OrderStatus
    cancel_reason: str | None
    accepted_at: Annotated[Instant, Meta(description="When the store accepted it.")] | None
    ready_at: (
        Annotated[
            Instant, Meta(description="When its status became `ready`, or `inTransit` without that before.")
        ]
        | None
    )
    items: Annotated[int, Meta(description="How many items it has, without their modifiers.")]
    placed_total: Amount


class ReportTotals(ReportAmounts, kw_only=True):
    """The sums of the orders in one currency. `orders` are those that weren't cancelled."""

    orders: int
    cancelled: int


class OrderReport(Wire, kw_only=True):
    """The orders of a period of days, the oldest first, and their sums by currency.

    It is sent as it is read: `totals`, its last member, are the sums of the very orders before them.
    """

    from_: Annotated[str, Meta(extra_json_schema={"format": "date"})] = field(name="from")
    to: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    timezone: str
    store_id: UUID | None
    orders: list[ReportedOrder]
    totals: list[ReportTotals]
