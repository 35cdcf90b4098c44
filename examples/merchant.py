"""A merchant's system: it hosts a menu, goes live, takes orders and cooks them.

    python examples/merchant.py partner.json [PORT]

`partner.json` is what `mercato partner create "My POS" --kind commerce --json` has printed.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from uuid import UUID

from aiohttp import web

from mercato_client import AsyncClient, Receiver, errors, types

ITEMS = {
    "ramen": {"name": "Miso ramen", "basePrice": "13.50"},
    "gyoza": {"name": "Gyoza", "basePrice": "6.25"},
}
MENU = {"currency": "USD", "sections": {"all": {"name": "All", "itemIds": list(ITEMS)}}, "items": ITEMS}
URL = os.environ.get("MERCATO_URL", "http://127.0.0.1:8000")
BOOK: dict[UUID, types.PlaceReply] = {}  # a real system keeps it in a database
CANCELLATIONS: dict[UUID, types.CancelReply] = {}
KITCHEN: asyncio.Queue[UUID] = asyncio.Queue()
WAITING: set[UUID] = set()  # in the kitchen's queue, and not begun


def reasons(order: types.WebhookOrder) -> list[types.StoreOrderError]:
    """Return what is wrong with an order, line by line."""
    found = []
    for number, line in enumerate(order.cart.line_items):
        item, at = ITEMS.get(line.partner_item_id), f"/cart/lineItems/{number}"
        if item is None or line.modifier_groups:
            found.append(types.StoreOrderError(code="ITEM_UNAVAILABLE", message="No such dish.", pointer=at))
        elif line.amounts and line.amounts.unit_price != item["basePrice"]:
            found.append(
                types.StoreOrderError(code="ITEM_PRICE_CHANGED", message="It costs more.", pointer=at)
            )
    return found


def validate(data: types.OrderValidateData) -> types.ValidateReply:
    wrong = reasons(data.order)
    return types.ValidateReply(is_valid=not wrong, errors=wrong)


def place(data: types.OrderPlaceData) -> types.PlaceReply:
    """Accept an order once: a repeated call gets the first answer."""
    if data.order_id not in BOOK:
        wrong = reasons(data.order)
        reply = types.PlaceReply(accepted=not wrong, partner_order_id=f"A-{len(BOOK) + 1}", errors=wrong)
        BOOK[data.order_id] = reply
        if not wrong:
            WAITING.add(data.order_id)
            KITCHEN.put_nowait(data.order_id)
    return BOOK[data.order_id]


def cancel(data: types.OrderCancelData) -> types.CancelReply:
    """Cancel an order that nobody has begun; a repeated call gets the first answer."""
    if data.cancellation_id not in CANCELLATIONS:
        accepted = data.order_id in WAITING
        WAITING.discard(data.order_id)
        reply = types.CancelReply(accepted=accepted, reason=None if accepted else "It is being cooked.")
        CANCELLATIONS[data.cancellation_id] = reply
    return CANCELLATIONS[data.cancellation_id]


async def open_shop(receiver: Receiver, port: int) -> str:
    """Serve the menu and answer webhooks; return the base URL."""

    async def menu(_: web.Request) -> web.Response:
        return web.json_response(MENU)

    async def webhook(request: web.Request) -> web.Response:
        try:
            sent = await request.read()
        except ConnectionError:  # the sender disconnected and waits for no answer
            return web.Response(status=400)
        status, body = receiver.answer(request.headers, sent)
        return web.Response(status=status, body=body, content_type="application/json")

    app = web.Application()
    app.add_routes([web.get("/menu.json", menu), web.post("/hooks/{event}", webhook)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except OSError:
        sys.exit(f"Port {port} cannot be used. Give another one after the file; 0 takes a free one.")
    return f"http://127.0.0.1:{runner.addresses[0][1]}"


async def go_live(mercato: AsyncClient, here: str) -> types.Store:
    """Register the store, or find the one of an earlier run, and wait until it is live."""
    menu, hooks, city = f"{here}/menu.json", f"{here}/hooks", types.AddressRequest(city="Madison", state="WI")
    wanted = types.OnboardingRequest(
        partner_store_id="ramen-1",
        name="Harbour Ramen",
        address=city,
        catalog_callback_url=menu,
        webhook_url=hooks,
    )
    try:
        onboarding_id = (await mercato.register_store(wanted)).onboarding_id
    except errors.ConflictError as known:
        onboarding_id = known.members["onboardingId"]
    store = await mercato.wait_until_live(onboarding_id)
    if store.webhook_url != hooks:  # the earlier run's
        store = await mercato.update_store(store.store_id, types.StoreUpdate(webhook_url=hooks))
    return store


async def cook(mercato: AsyncClient, order_id: UUID) -> None:
    for status in ("confirmed", "preparing", "ready"):
        await asyncio.sleep(0.5)
        await mercato.update_order_status(order_id, types.OrderStatusUpdate(status=status))
    await mercato.update_order_status(order_id, types.OrderStatusUpdate(state="completed"))
    print(f"Order {order_id} was handed over.", flush=True)


async def main(partner: dict[str, str], port: int) -> None:
    receiver = Receiver(
        partner["signingSecret"], validate=validate, place=place, cancel=cancel, refused=print
    )
    here = await open_shop(receiver, port)
    async with AsyncClient(URL, partner["commerceKey"]) as mercato:
        store = await go_live(mercato, here)
        print(f"{store.name} is live: {store.store_id}", flush=True)
        while True:
            order_id = await KITCHEN.get()
            if order_id not in WAITING:  # cancelled
                continue
            WAITING.discard(order_id)
            try:
                await cook(mercato, order_id)
            except errors.MercatoError as fault:
                print(f"Order {order_id} was not cooked: {fault}", flush=True)


def read(file: str) -> dict[str, str]:
    """Return the contents of a partner's file; exit if it isn't one."""
    try:
        found = json.loads(Path(file).read_text())
    except (OSError, ValueError) as fault:
        sys.exit(f"{file} cannot be read: {fault}. Create it with mercato partner create … --json > {file}")
    return (
        found
        if isinstance(found, dict)
        else sys.exit(f"{file} isn't a partner's file: it has no JSON object.")
    )


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    port = sys.argv[2] if sys.argv[2:] else "9200"
    if not port.isdecimal() or int(port) > 65535:
        sys.exit(f"{port} isn't a port: give a number up to 65535 after the file.")
    try:
        asyncio.run(main(read(sys.argv[1]), int(port)))
    except KeyError as missing:
        sys.exit(f"{sys.argv[1]} has no {missing}: is it the file of a partner of the other kind?")
    except (errors.MercatoError, OSError, ValueError) as fault:
        sys.exit(str(fault))
    except KeyboardInterrupt:
        print("Closed.")
