"""Waits for background work of the service: polls as often as it says, until a deadline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato_client.commerce import Commerce
from mercato_client.core import Core
from mercato_client.errors import (
    CatalogFailedError,
    ConflictError,
    DeadlineError,
    NoAnswerError,
    RateLimitError,
    ServerError,
)
from mercato_client.exchange import Id, Request, Steps, pause
from mercato_client.marketfront import Marketfront
from mercato_client.operation import Flow
from mercato_contract.catalogs import (
    CatalogFault,
    CatalogIngestAccepted,
    CatalogIngestStatusResponse,
    RunStatus,
)
from mercato_contract.orders import Order, OrderState
from mercato_contract.stores import OnboardingState, OnboardingStatus, Store

S = TypeVar("S")

TIMEOUT: Final = 300.0
"""The default deadline in seconds: enough for the longest pull behind some queued runs."""

_FIRST_STEP: Final = 0.1
_MAX_STEP: Final = 2.0
"""The longest time in seconds between two polls without a `Retry-After`."""


@dataclass(slots=True)
class _Poll(Generic[S]):
    """Polls something until it is done."""

    core: Core
    request: Request[S]
    timeout: float
    started: float = field(init=False)
    step: float = _FIRST_STEP
    last: S | None = None

    def __post_init__(self) -> None:
        self.started = self.core.clock()

    def until(self, done: Callable[[S], bool], *, first_pause: float = 0.0) -> Steps[S]:
        """Return the state that is done. Raises DeadlineError, and what the first request raises.

        After the first answer, a later one that fails only delays the next poll.
        """
        wait = first_pause
        while True:
            yield from self._wait(wait)
            try:
                state, reply = yield from self.core.exchange(
                    self.request, deadline=self.started + self.timeout
                )
            except (NoAnswerError, ServerError, RateLimitError) as fault:
                if self.last is None:
                    raise
                wait = getattr(fault, "retry_after", None) or self._next_step()
                continue
            self.last = state
            if done(state):
                return state
            wait = reply.retry_after or self._next_step()

    def _wait(self, seconds: float) -> Steps[None]:
        remaining = self.timeout - (self.core.clock() - self.started)
        if seconds >= remaining:
            raise DeadlineError(f"Not done after {self.timeout:g} s: {self.last}", last=self.last)
        if seconds > 0:
            yield from pause(seconds)

    def _next_step(self) -> float:
        self.step, step = min(2 * self.step, _MAX_STEP), self.step
        return step


class CommerceWaits:
    """Waits of a merchant."""

    @Flow
    @staticmethod
    def wait_until_live(core: Core, onboarding_id: Id, *, timeout: float = TIMEOUT) -> Steps[Store]:
        """Wait until the catalog is checked, activate the store, and return it. One that is live is returned at once.

        Raises CatalogFailedError with every error of the catalog, and DeadlineError.
        """
        poll = _Poll(core, Commerce.get_onboarding_status.request(onboarding_id), timeout)
        status = yield from poll.until(_settled)
        if status.status is OnboardingState.CATALOG_FAILED:
            raise CatalogFailedError(_refused(status.errors), status=status)
        if status.status is OnboardingState.READY_TO_ACTIVATE:
            try:
                return (yield from core.perform(Commerce.activate_store.request(onboarding_id)))
            except ConflictError:
                # Activated concurrently, or the answer to the first attempt was lost.
                status = yield from core.perform(Commerce.get_onboarding_status.request(onboarding_id))
                if isinstance(status.store_id, UnsetType):
                    raise
        assert isinstance(status.store_id, UUID)
        return (yield from core.perform(Commerce.get_store.request(status.store_id)))

    @Flow
    @staticmethod
    def replace_catalog(
        core: Core,
        store_id: Id,
        callback_url: str,
        *,
        activate_at: datetime | str | None = None,
        timeout: float = TIMEOUT,
    ) -> Steps[CatalogIngestStatusResponse]:
        """Notify of a new catalog, and wait until the store has switched to it; with `activate_at`, until it is built.

        Raises CatalogFailedError with every error (the store keeps its catalog then), and DeadlineError.
        """
        request = Commerce.notify_catalog_update.request(store_id, callback_url, activate_at=activate_at)
        is_scheduled = activate_at is not None
        return (yield from _accepted(core, store_id, request, is_scheduled=is_scheduled, timeout=timeout))

    @Flow
    @staticmethod
    def publish_catalog(
        core: Core,
        store_id: Id,
        document: bytes | Mapping[str, Any],
        *,
        activate_at: datetime | str | None = None,
        timeout: float = TIMEOUT,
    ) -> Steps[CatalogIngestStatusResponse]:
        """Send a new catalog, and wait until the store has switched to it; with `activate_at`, until it is built.

        Raises CatalogFailedError with every error (the store keeps its catalog then), and DeadlineError.
        """
        request = Commerce.put_catalog.request(store_id, document, activate_at=activate_at)
        is_scheduled = activate_at is not None
        return (yield from _accepted(core, store_id, request, is_scheduled=is_scheduled, timeout=timeout))

    @Flow
    @staticmethod
    def wait_until_ingested(
        core: Core, store_id: Id, catalog_ingest_id: Id, *, timeout: float = TIMEOUT
    ) -> Steps[CatalogIngestStatusResponse]:
        """Wait until a catalog run has succeeded, or is built and waits for its `activate_at`.

        Raises CatalogFailedError, DeadlineError.
        """
        run = Commerce.get_catalog_ingest_status.request(store_id, catalog_ingest_id)
        return (yield from _ingested(core, run, timeout=timeout, first_pause=0.0))


class MarketfrontWaits:
    """Waits of a storefront."""

    @Flow
    @staticmethod
    def wait_until_closed(core: Core, order_id: Id, *, timeout: float = TIMEOUT) -> Steps[Order]:
        """Wait until an order is completed or cancelled. Raises DeadlineError, with the order as `last`."""
        poll = _Poll(core, Marketfront.get_marketfront_order.request(order_id), timeout)
        return (yield from poll.until(lambda order: order.state is not OrderState.OPEN))


def _accepted(
    core: Core, store_id: Id, request: Request[CatalogIngestAccepted], *, is_scheduled: bool, timeout: float
) -> Steps[CatalogIngestStatusResponse]:
    accepted, reply = yield from core.exchange(request)
    run = Commerce.get_catalog_ingest_status.request(store_id, accepted.catalog_ingest_id)
    # With `activate_at` the service says when to ask for the switch. The catalog is built long before.
    first_pause = 0.0 if is_scheduled else reply.retry_after or 0.0
    return (yield from _ingested(core, run, timeout=timeout, first_pause=first_pause))


def _ingested(
    core: Core, run: Request[CatalogIngestStatusResponse], *, timeout: float, first_pause: float
) -> Steps[CatalogIngestStatusResponse]:
    ended = {RunStatus.SUCCEEDED, RunStatus.FAILED}
    # A run that has its set and hasn't ended waits for its instant.
    status = yield from _Poll(core, run, timeout).until(
        lambda state: state.status in ended or state.catalog_set_id is not UNSET, first_pause=first_pause
    )
    if status.status is RunStatus.FAILED:
        raise CatalogFailedError(_refused(status.errors), status=status)
    return status


def _settled(status: OnboardingStatus) -> bool:
    return status.status not in {OnboardingState.PENDING_CATALOG, OnboardingState.CATALOG_INGESTING}


def _refused(errors: tuple[CatalogFault, ...]) -> str:
    lines = [f"  {fault.path or '-'}: {fault.message}" for fault in errors]
    return "\n".join(["The catalog can't be served:", *lines])
