"""The records of the partners: everything that merchants and storefronts sent and received."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.prove.model import Violation


def digest(body: bytes) -> str:
    """Return a digest of a body."""
    return hashlib.sha256(body).hexdigest()[:16]


@dataclass(slots=True)
class WebhookLog:
    """Webhooks by id: the bodies received, and whether one of them was acknowledged."""

    bodies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: set[str] = field(default_factory=set)
    arrivals: Counter[str] = field(default_factory=Counter)
    forged: list[str] = field(default_factory=list)

    def note(self, webhook_id: str, body: bytes) -> None:
        """Record a body that arrived under an id."""
        self.bodies[webhook_id].add(digest(body))
        self.arrivals[webhook_id] += 1


@dataclass(slots=True)
class MerchantOrder:
    """An order in a merchant's records: its first answer, and the progress that the service has acknowledged."""

    store: str
    accepted: bool
    answer: tuple[int, Any]
    number: str | None
    silent: bool = False
    """The merchant never answers this order."""
    denied: bool = False
    """The merchant lost its first answer, and gave repeats another."""
    status: str = "pending"
    state: str = "open"
    closed_by_service: bool = False
    consented: bool = False
    """The merchant has let the storefront cancel it."""
    refunds: list[tuple[int, bytes]] = field(default_factory=list)
    """The final answers to a refund, which has one Idempotency-Key."""

    @property
    def final_state(self) -> str:
        """Return the state that the merchant ends with: an update that was acknowledged came before its consent."""
        return "cancelled" if self.consented and self.state == "open" else self.state


@dataclass(slots=True)
class PulledOrder:
    """An order about which a merchant isn't called: the events that it read, and what its people did."""

    types: list[str] = field(default_factory=list)
    newest: tuple[str, str] = ("", "")
    """State and status in the newest event."""
    accepting: bool = False
    """Somebody tried to accept it."""
    accepted: bool = False
    """The service acknowledged that."""
    refusing: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MerchantCancellation:
    """A cancellation in a merchant's records, with its only answer; None if the merchant never answers."""

    order_id: str
    reason: str
    accepted: bool | None


@dataclass(slots=True)
class Shop:
    """A store in its merchant's records."""

    name: str
    merchant: int
    onboarding_id: str | None = None
    store_id: str | None = None
    version: int = 1
    """The version of the newest hosted catalog; each has other prices."""
    broken: set[int] = field(default_factory=set)
    """Versions whose references do not resolve."""
    runs: dict[str, int] = field(default_factory=dict)
    """The newest version when a run was requested, by the run's id."""
    paused: bool | None = None
    """The status that the service last acknowledged."""
    by_hand: bool = False
    """People accept its orders, which it pulls."""


@dataclass(slots=True)
class MerchantRecords:
    """The records of all merchants."""

    shops: dict[str, Shop] = field(default_factory=dict)
    orders: dict[str, MerchantOrder] = field(default_factory=dict)
    pulled: dict[str, PulledOrder] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """Orders of which `order-cancelled` was acknowledged."""
    cancellations: dict[str, MerchantCancellation] = field(default_factory=dict)
    """By the webhook-id under which the merchant heard of them."""
    synced: dict[str, str] = field(default_factory=dict)
    """The result in the acknowledged sync webhook of a run."""
    webhooks: WebhookLog = field(default_factory=WebhookLog)


@dataclass(slots=True)
class KeyHistory:
    """An Idempotency-Key in the storefront's records: the request, and every answer to it."""

    body: Any
    token: str | None
    finals: list[tuple[int, bytes]] = field(default_factory=list)
    order_ids: set[str] = field(default_factory=set)
    """Ids of orders in the answers to this key."""
    by_agent: bool = False
    """The request is made with the key of an agent."""
    quote: dict[str, Any] | None = None
    """The arguments of place_order, if an agent orders by a quote: then the key is that of the customer alone."""

    @property
    def pinned(self) -> list[tuple[int, bytes]]:
        """Return the answers that are pinned to the key: those about its order. Other refusals leave it free."""
        return [final for final in self.finals if _has_order_id(final[1])]


def _has_order_id(answer: bytes) -> bool:
    body = msgspec.json.decode(answer)
    return "orderId" in body and body.get("errorCode") != "ORDER_ALREADY_PLACED"


@dataclass(frozen=True, slots=True)
class Event:
    """An acknowledged order event."""

    webhook_id: str
    digest: str
    state: str
    status: str


@dataclass(slots=True)
class CancelHistory:
    """An Idempotency-Key of a cancellation: its order, and every final answer to it. The reason is the key's own."""

    order_id: str
    reason: str
    finals: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def pinned(self) -> list[tuple[int, bytes]]:
        """Return the answers that are pinned to the key."""
        return [final for final in self.finals if _has_order_id(final[1])]


@dataclass(slots=True)
class StorefrontRecords:
    """The records of the storefront."""

    keys: dict[str, KeyHistory] = field(default_factory=dict)
    cancellations: dict[str, CancelHistory] = field(default_factory=dict)
    """By their Idempotency-Key."""
    events: dict[str, dict[int, set[Event]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    webhooks: WebhookLog = field(default_factory=WebhookLog)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOrder:
    """An order in the service's records. `key` is the Idempotency-Key that its request carried in `partnerUserId`."""

    id: str
    key: str | None
    answer: str
    state: str
    status: str
    number: str | None
    sequence: int
    cancel_reason: str | None = None
    cancellation: str | None = None
    """The status of the storefront's newest cancellation."""
    is_pulled: bool = False
    """Its merchant isn't called about it."""
    by_agent: bool = False
    """It is stored as an agent's."""
    adjustments: int = 0
    adds_up: bool = True
    """Whether its total and its adjustments come to what it costs now."""


@dataclass(frozen=True, slots=True)
class ServiceCancellation:
    """A cancellation about which the service called the store, by its delivery log."""

    order_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRun:
    """A catalog run that a merchant requested, in the service's records."""

    id: str
    store_id: str
    status: str
    set_id: str | None


@dataclass(frozen=True, slots=True)
class Spending:
    """What the service has counted for an agent's day, what its orders of that day cost, and the limit."""

    counted: int
    cost: int
    limit: int


@dataclass(slots=True, kw_only=True)
class ServiceRecords:
    """The records of the service once it is idle."""

    orders: dict[str, ServiceOrder] = field(default_factory=dict)
    runs: dict[str, ServiceRun] = field(default_factory=dict)
    """In the order in which they were requested."""
    cancellations: dict[str, ServiceCancellation] = field(default_factory=dict)
    """By the webhook-id of their calls."""
    serves: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By store: the CatalogSet's id and the version that its prices identify."""
    stores: dict[str, str] = field(default_factory=dict)
    """The name of each store by its id."""
    paused: dict[str, bool] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    """How often discovery lists each store."""
    spending: dict[str, Spending] = field(default_factory=dict)
    """By agent, day and currency."""
    misread: list[str] = field(default_factory=list)
    """Orders that a side reads differently from the other, or from how they are stored."""
    unfinished: list[str] = field(default_factory=list)
    """Unfinished work: jobs, runs, deliveries, submissions, claimed keys."""


@dataclass(slots=True, kw_only=True)
class Records:
    """All three, and violations seen during the round."""

    service: ServiceRecords
    merchants: MerchantRecords
    storefront: StorefrontRecords
    noticed: list[Violation] = field(default_factory=list)


def shown(ids: Iterable[object]) -> str:
    """Return ids for a report."""
    return " ".join(str(one) for one in ids)
