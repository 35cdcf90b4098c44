"""A storefront that does everything right, and those with one bug each, named after the check that has to find it."""

import contextlib
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from tests.certify.merchants import SECRET, Verifying

from mercato.certify.storefront.drivers import Ended
from mercato.certify.storefront.network import Network
from mercato.testing import StorefrontDouble
from mercato.testing.caller import ServiceError

FOLLOW = 1.5


class Shop(Verifying, StorefrontDouble):
    """Buys and listens, and shows its orders."""

    def routes(self, app: web.Application) -> None:
        super().routes(app)
        app.router.add_get("/shown/{order}", self.shown)

    @property
    def order_url(self) -> str:
        return f"{self.url}/shown/{{orderId}}"

    async def shown(self, request: web.Request) -> web.Response:
        return web.json_response(self.order_shown(request.match_info["order"]))

    def order_shown(self, order_id: str) -> Any:
        return self.newest(order_id)

    def called(self, api: str, key: str) -> None:
        self._service = (api, key)


class InProcess:
    """Drives a double; a purchase that the service refuses is told, anything else is a crash."""

    keeps = True
    port = 0
    at_once = 1

    def __init__(self, kind: type[Shop]) -> None:
        self.kind = kind
        self.shops: dict[str, Shop] = {}

    async def buy(self, network: Network, key: str, store_id: str, words: str) -> Ended:
        async with contextlib.AsyncExitStack() as stack:
            shop = self.shops.get(network.base)
            if shop is None:
                shop = self.shops[network.base] = self.kind(api=network.base, key=key)
            await stack.enter_async_context(shop)
            try:
                await shop.buy(len(shop.purchases) + 1, follow=FOLLOW)
            except ServiceError as error:
                return Ended(crashed=False, words=str(error))
            except Exception as error:  # noqa: BLE001  # a crash of the double is what is looked for
                return Ended(crashed=True, words=repr(error))
            return Ended(crashed=False)
