"""The books of the partners: everything that merchants and storefronts saw, and what they were told."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.prove.model import Violation


def digest(body: bytes) -> str:
    """Return what tells one body from another."""
    return hashlib.sha256(body).hexdigest()[:16]


@dataclass(slots=True)
class Mail:
    """Webhooks by id: the bodies that came under it, and whether one of them was acknowledged."""

    bodies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: set[str] = field(default_factory=set)
    arrivals: Counter[str] = field(default_factory=Counter)
    forged: list[str] = field(default_factory=list)

    def note(self, webhook_id: str, body: bytes) -> None:
        """Write down that a body arrived under an id."""
        self.bodies[webhook_id].add(digest(body))
        self.arrivals[webhook_id] += 1


@dataclass(slots=True)
class Taken:
    """An order in a merchant's book: the first answer to it, and how far the service has acknowledged it to be."""

    store: str
    accepted: bool
    answer: tuple[int, Any]
    number: str | None
    silent: bool = False
    """The merchant never answers this one."""
    status: str = "pending"
    state: str = "open"
    closed_by_service: bool = False


@dataclass(slots=True)
class Shop:
    """A store in its merchant's book."""

    name: str
    merchant: int
    onboarding_id: str | None = None
    store_id: str | None = None
    version: int = 1
    """Of the newest catalog that is hosted; each version has other prices."""
    broken: set[int] = field(default_factory=set)
    """Versions whose references do not resolve."""
    runs: dict[str, int] = field(default_factory=dict)
    """The version that was the newest when a run was asked for, by the run's id."""
    paused: bool | None = None
    """As the service last acknowledged it."""


@dataclass(slots=True)
class MerchantBook:
    """What all merchants know."""

    shops: dict[str, Shop] = field(default_factory=dict)
    orders: dict[str, Taken] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """Orders of which `order-cancelled` was acknowledged."""
    synced: dict[str, str] = field(default_factory=dict)
    """What the acknowledged sync webhook of a run said."""
    mail: Mail = field(default_factory=Mail)


@dataclass(slots=True)
class Asked:
    """An Idempotency-Key in the storefront's book: the request, and every answer to it."""

    body: Any
    token: str | None
    finals: list[tuple[int, bytes]] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    """Ids of orders that the storefront was told of under this key."""

    @property
    def pinned(self) -> list[tuple[int, bytes]]:
        """Return the answers that the key keeps: those about its order. Any other refusal leaves the key free."""
        return [final for final in self.finals if _names_its_order(final[1])]


def _names_its_order(answer: bytes) -> bool:
    body = msgspec.json.decode(answer)
    return "orderId" in body and body.get("errorCode") != "ORDER_ALREADY_PLACED"


@dataclass(frozen=True, slots=True)
class Event:
    """An order event as it was acknowledged."""

    webhook_id: str
    digest: str
    state: str
    status: str


@dataclass(slots=True)
class StorefrontBook:
    """What the storefront knows."""

    keys: dict[str, Asked] = field(default_factory=dict)
    events: dict[str, dict[int, set[Event]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    mail: Mail = field(default_factory=Mail)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOrder:
    """An order in the service's book. `key` is the Idempotency-Key that its request carried in `partnerUserId`."""

    id: str
    key: str | None
    answer: str
    state: str
    status: str
    number: str | None
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRun:
    """A catalog run that a merchant asked for, in the service's book."""

    id: str
    store_id: str
    status: str
    set_id: str | None


@dataclass(slots=True, kw_only=True)
class ServiceBook:
    """What the service knows, once it has come to rest."""

    orders: dict[str, ServiceOrder] = field(default_factory=dict)
    runs: dict[str, ServiceRun] = field(default_factory=dict)
    """In the order in which they were asked for."""
    serves: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By store: the CatalogSet's id and the version that its prices tell."""
    stores: dict[str, str] = field(default_factory=dict)
    """The name of each store by its id."""
    paused: dict[str, bool] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    """How often discovery shows each store."""
    misread: list[str] = field(default_factory=list)
    """Orders that one side reads otherwise than the other, or than they are stored."""
    unfinished: list[str] = field(default_factory=list)
    """Whatever still waits to be done: jobs, runs, deliveries, submissions, claimed keys."""


@dataclass(slots=True, kw_only=True)
class Books:
    """All three, and what was noticed on the way."""

    service: ServiceBook
    merchants: MerchantBook
    storefront: StorefrontBook
    noticed: list[Violation] = field(default_factory=list)


def shown(ids: Iterable[object]) -> str:
    """Return ids for a report."""
    return " ".join(str(one) for one in ids)
