"""A merchant's onboarding: it registers a store, waits for the pull, activates the store, and publishes catalogs."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from mercato_client.testing.caller import POLL, Caller, ServiceError
from mercato_client.testing.merchant import MerchantDouble
from mercato_contract.catalogs import CatalogIngestAccepted, CatalogIngestStatusResponse
from mercato_contract.stores import OnboardingStatus, Store

ONBOARDING: Final = "/v1/commerce/onboarding/stores"
STORES: Final = "/v1/commerce/stores"

TIMEOUT: Final = 60.0
"""Seconds to wait for a pull."""

_PULLED: Final = ("ready_to_activate", "catalog_failed", "active")
_LOCAL: Final = "(One on this machine reaches loopback only with MERCATO_ALLOW_PRIVATE_NETWORKS=true.)"
_ENDED: Final = ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class Shop:
    """A store as its merchant registers it."""

    partner_store_id: str
    name: str
    document: Any = field(repr=False)
    address: Mapping[str, Any]
    timezone: str

    def registration(self, *, catalog_url: str, webhook_url: str) -> dict[str, Any]:
        """Return the body of its registration."""
        return {
            "partnerStoreId": self.partner_store_id,
            "name": self.name,
            "address": self.address,
            "timezone": self.timezone,
            "catalogCallbackUrl": catalog_url,
            "webhookUrl": webhook_url,
        }


@dataclass(slots=True)
class Opening:
    """Brings a store live. `public` is where the service reaches the merchant, if not at the double's URL."""

    merchant: MerchantDouble
    caller: Caller
    say: Callable[[str], object]
    public: str = ""
    store_id: str = ""
    was_there: bool = False

    async def open(self, shop: Shop) -> str:
        """Register the store and make it live, or resume a store that is known; return its id. Raises ServiceError."""
        onboarding_id = await self.register(shop)
        status = await self.pulled(onboarding_id)
        if status["status"] == "catalog_failed":
            errors = status.get("errors", ())[:3]
            faults = "; ".join(f"{error['path'] or '/'}: {error['message']}" for error in errors)
            raise ServiceError(f"The service refuses the catalog. {faults} {_LOCAL}")
        if status["status"] == "active" and "storeId" in status:
            self.store_id = status["storeId"]
        else:
            reply = await self.caller.post(f"{ONBOARDING}/{onboarding_id}/activate")
            self.store_id = reply.expect(HTTPStatus.OK, "The store is not activated", Store)["storeId"]
        self.say(f"{shop.name} is live: {self.store_id}")
        if self.was_there:
            await self.take_up()
        return self.store_id

    async def register(self, shop: Shop) -> str:
        """Return the id of the store's onboarding, new or existing."""
        body = shop.registration(
            catalog_url=self._seen_from_there(self.merchant.catalog_url),
            webhook_url=self._seen_from_there(self.merchant.webhook_url),
        )
        reply = await self.caller.post(ONBOARDING, body)
        known = reply.problem().get("onboardingId")
        if reply.code == "STORE_ALREADY_REGISTERED" and known is not None:
            self.was_there = True
            self.say(f"{shop.partner_store_id} is registered already.")
            return str(known)
        made = reply.expect(HTTPStatus.CREATED, "The store is not registered", OnboardingStatus)
        onboarding_id: str = made["onboardingId"]
        self.say(f"{shop.partner_store_id} is registered; its catalog is being pulled.")
        return onboarding_id

    async def pulled(self, onboarding_id: str) -> Any:
        """Return the onboarding once its catalog was accepted or refused."""
        return await self._wait_for_end(
            f"{ONBOARDING}/{onboarding_id}", _PULLED, "The onboarding cannot be read", OnboardingStatus
        )

    async def take_up(self) -> None:
        """Update a known store's webhookUrl and publish its catalog."""
        change = {"webhookUrl": self._seen_from_there(self.merchant.webhook_url)}
        reply = await self.caller.put(f"{STORES}/{self.store_id}", change)
        reply.expect(HTTPStatus.OK, "The store's webhookUrl is not changed", Store)
        await self.publish()

    async def publish(self) -> Any:
        """Have the hosted catalog pulled and return the finished run."""
        url = self._seen_from_there(self.merchant.catalog_url)
        path = f"/v1/commerce/catalogset-notification?storeId={self.store_id}"
        reply = await self.caller.post(path, {"callbackUrl": url})
        accepted = reply.expect(HTTPStatus.ACCEPTED, "The catalog is not published", CatalogIngestAccepted)
        # Made here, not read from its statusUrl: the key goes to no other place.
        path = f"{STORES}/{self.store_id}/catalog-ingest/{accepted['catalogIngestId']}/status"
        poll = POLL if reply.retry_after is None else min(POLL, reply.retry_after)
        what = "The run cannot be read"
        run = await self._wait_for_end(path, _ENDED, what, CatalogIngestStatusResponse, poll=poll)
        self.say(f"Published: {run['status']}" + "".join(f"; {error['message']}" for error in run["errors"]))
        return run

    async def _wait_for_end(
        self, path: str, ends: Collection[str], what: str, kind: Any, *, poll: float = POLL
    ) -> Any:
        """Return a resource once its status is one of the ends. Raises ServiceError after a minute."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self.caller.until(path, lambda run: run["status"] in ends, what, kind, poll=poll)
        except TimeoutError:
            raise ServiceError(
                "The service hasn't pulled the catalog within a minute. Is a worker running?"
            ) from None

    def _seen_from_there(self, url: str) -> str:
        return url.replace(self.merchant.url, self.public.rstrip("/"), 1) if self.public else url
