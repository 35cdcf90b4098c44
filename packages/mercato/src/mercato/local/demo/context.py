"""What the demo's steps work with: a merchant, a storefront, other partners, a display, and the proofs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from mercato_client.testing.caller import Answer, Caller
from mercato_client.testing.merchant import MerchantDouble
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_client.testing.server import Received
from mercato_client.testing.shops import SHOPS
from mercato_client.testing.storefront import StorefrontDouble

T = TypeVar("T")

TIMEOUT: Final = 60.0
"""Seconds to wait for anything before its proof fails: many times what a busy and slow machine needs."""

POLL: Final = 0.05
"""Seconds between two polls of a resource."""


class Proof(Struct, frozen=True):
    """A claim, what was observed, and whether that proves it."""

    claim: str
    seen: str
    holds: bool


class ProofFailed(Exception):  # noqa: N818  # an outcome that is shown
    """The observation doesn't prove the claim, so the demo ends."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(f"{proof.claim}: {proof.seen}")
        self.proof = proof


class Proofs(list[Proof]):
    """The proofs of one demo, in order."""

    def add(self, claim: str, seen: str, *, holds: bool) -> None:
        """Record a proof. Raises ProofFailed if it doesn't hold."""
        self.append(Proof(claim, seen, holds))
        if not holds:
            raise ProofFailed(self[-1])

    async def until(
        self, claim: str, look: Callable[[], Awaitable[T]], done: Callable[[T], bool], *, poll: float = POLL
    ) -> T:
        """Poll until it is done, and return the last result. Raises ProofFailed after the timeout."""
        last: object = "nothing"
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    last = seen = await look()
                    if done(seen):
                        return seen
                    await asyncio.sleep(poll)
        except TimeoutError:
            self.add(claim, f"not within {TIMEOUT:g} s; the last seen was {last}", holds=False)
            raise


# --- the context --------------------------------------------------------------------------------------

ONBOARDING: Final = "/v1/commerce/onboarding/stores"
STORES: Final = "/v1/commerce/stores"

PULL_STEPS: Final = {
    "pending_catalog": 0,
    "catalog_ingesting": 1,
    "ready_to_activate": 2,
    "catalog_failed": 2,
}
"""The progress of an onboarding by its status, for a progress bar."""

_PULLED: Final = ("ready_to_activate", "catalog_failed")
_SHOWN: Final = 200
"""Bytes of an unexpected response that are shown."""


class Watch(Protocol):
    """Shows the progress of something."""

    def __call__(self, name: str, status: str) -> None: ...


class Display(Protocol):
    """Where the demo is shown."""

    def chapter(self, title: str) -> None:
        """Begin a step."""

    def say(self, line: str) -> None:
        """Show what happened."""

    def watching(self, names: Sequence[str], steps: Mapping[str, int]) -> AbstractContextManager[Watch]:
        """Show a progress bar for each name while the block runs; each begins with the first of the steps."""


@dataclass(slots=True, kw_only=True)
class DemoContext:
    """One run of the demo. Ids and URLs are by the shop's short name, `events` by webhook-id.

    `partner` and `front` are the merchant's and the storefront's callers, `stranger` and `other_front` other partners'.
    """

    partner: Caller
    stranger: Caller
    front: Caller
    other_front: Caller
    signing_secret: str = field(repr=False)
    merchant: MerchantDouble
    order_simulator: OrderSimulator
    storefront: StorefrontDouble
    data_dir: Path
    display: Display
    proofs: Proofs = field(default_factory=Proofs)
    onboardings: dict[str, str] = field(default_factory=dict)
    stores: dict[str, str] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    events: dict[str, Received] = field(default_factory=dict)
    seller: Any = None
    """The store where the storefront buys, as the service returns it."""
    catalog: Any = None
    cart: Any = None
    order: Any = None
    validated: Any = None
    """The order as the last validation returned it."""
    key: str = ""
    placed: Answer | None = None
    """The answer to the first order."""
    joined: str = ""
    """The id of the order whose store was down."""

    def say(self, line: str) -> None:
        """Show what happened."""
        self.display.say(line)

    def prove(self, claim: str, seen: str, holds: object) -> None:
        """Record a claim and what was observed. Raises ProofFailed if it doesn't hold."""
        self.proofs.add(claim, seen, holds=bool(holds))

    def store(self, shop: str) -> str:
        """Return the path of a shop's store."""
        return f"{STORES}/{self.stores[shop]}"

    def expect(self, answer: Answer, status: int, claim: str) -> Any:
        """Return the body of a response that must have this status. Raises ProofFailed."""
        if answer.status != status:
            self.prove(claim, f"{answer.status} {answer.body[:_SHOWN]!r}", holds=False)
        return answer.json()

    def refused(self, claim: str, answers: Sequence[Answer], status: int, code: str) -> None:
        """Prove that every response is this refusal."""
        problems = [(answer.status, answer.code, answer.json().get("detail")) for answer in answers]
        for got, name, detail in dict.fromkeys(problems):
            self.say(f"{got} {name}: {detail}")
        seen = {(got, name) for got, name, _ in problems}
        words = ", ".join(sorted(f"{got} {name}" for got, name in seen))
        times = f"{len(answers)} times " if len(answers) > 1 else ""
        self.prove(claim, times + words, seen == {(status, code)})

    async def set_id(self, shop: str) -> str:
        """Return the id of the CatalogSet that the shop's store serves now."""
        store: Mapping[str, str] = (await self.partner.get(self.store(shop))).json()
        return store["catalogSetId"]

    async def pulled(self, *shops: str) -> list[Any]:
        """Watch onboardings until their catalogs are accepted or refused; return their statuses."""
        names = {shop: SHOPS[shop].name for shop in shops}
        with self.display.watching(list(names.values()), PULL_STEPS) as watch:
            return [await self._pulled(shop, name, watch) for shop, name in names.items()]

    async def _pulled(self, shop: str, name: str, watch: Watch) -> Any:
        path = f"{ONBOARDING}/{self.onboardings[shop]}"

        async def look() -> Any:
            status = (await self.partner.get(path)).json()
            watch(name, status["status"])
            return status

        claim = f"The catalog of {name} is pulled"
        return await self.proofs.until(claim, look, lambda status: status["status"] in _PULLED)

    async def run(self, shop: str, url: str) -> Any:
        """Notify, wait for the event, and return the run's status resource."""
        path = f"/v1/commerce/catalogset-notification?storeId={self.stores[shop]}"
        reply = await self.partner.post(path, {"callbackUrl": url})
        accepted = self.expect(reply, 202, "A run is accepted")
        event = await self.event(accepted["catalogIngestId"])
        self.say(f"event {event.json()['type']} for {accepted['catalogIngestId']}")
        return (await self.partner.get(accepted["statusUrl"])).json()

    async def event(self, webhook_id: str) -> Received:
        """Wait for the next event of that id and keep the others. Raises ProofFailed."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    event = await self.merchant.webhook()
                    self.events[event.webhook_id] = event
                    if event.webhook_id == webhook_id:
                        return event
        except TimeoutError:
            self.prove("Every run ends in an event", f"none within {TIMEOUT:g} s", holds=False)
            raise
