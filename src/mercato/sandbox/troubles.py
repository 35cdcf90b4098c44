"""Third part of the storefront's story: a price changes, a card is declined, and the store's system goes down."""

from time import monotonic
from typing import Final
from uuid import uuid4

from mercato.sandbox.browsing import cart_of
from mercato.sandbox.ordering import EMAIL, ORDERS, order_of, placed, validated
from mercato.sandbox.scene import Scene
from mercato.testing import menus
from mercato.testing.merchant import DECLINED_CARD

NEWER_PRICE: Final = "11.00"


async def change_price(scene: Scene) -> None:
    """Validate, let the merchant publish a new price, and place what was validated."""
    taken = len(scene.merchant.taken)
    order = order_of(scene.basket.cart)
    before = await validated(scene, order)
    url = scene.merchant.host("/pizzeria.json", menus.pizzeria(margherita=NEWER_PRICE))
    await scene.run("pizzeria", url)
    late = order | {"validatedOrderToken": before["validatedOrderToken"]}
    reply = await placed(scene.front, late, key=str(uuid4()))
    scene.refused("A changed price is caught", [reply], 400, "ORDER_TOTAL_DIFFERENT")
    after = await validated(scene, order)
    old, new = (said["order"]["amounts"]["total"] for said in (before, after))
    unheard = len(scene.merchant.taken) == taken
    again = order | {"validatedOrderToken": after["validatedOrderToken"]}
    reply = await placed(scene.front, again, key=str(uuid4()))
    total = scene.expect(reply, 201, "The order is placed at the new price")["amounts"]["total"]
    scene.proofs.add(
        "It costs what was agreed to last",
        f"{old}, now {total}",
        holds=old != new == total and unheard and len(scene.merchant.taken) == taken + 1,
    )
    await scene.kitchen.cook(reply.json()["orderId"])
    scene.basket.cart = after["order"]["cart"]


async def decline(scene: Scene) -> None:
    """Pay with a card that the bank declines; then look for the card's token in everything that was written."""
    line = scene.basket.cart["lineItems"][1]["lineItemId"]
    body = {"cart": scene.basket.cart, "lineItemId": line, "quantity": 0}
    scene.basket.cart = await cart_of(scene, "remove", body)
    payment = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}
    order = order_of(scene.basket.cart, payment=payment)
    token = (await validated(scene, order))["validatedOrderToken"]
    scene.basket.order = order_of(scene.basket.cart) | {"validatedOrderToken": token}
    reply = await placed(scene.front, order | {"validatedOrderToken": token}, key=str(uuid4()))
    scene.refused("A declined card is told as such", [reply], 400, "PAYMENT_DECLINED")
    files = [path.read_bytes() for path in scene.data_dir.rglob("*") if path.is_file()]
    found = {word: sum(word.encode() in body for body in files) for word in (DECLINED_CARD, EMAIL)}
    log = await scene.partner.get("/v1/commerce/webhook-deliveries")
    scene.proofs.add(
        "The card's token is written nowhere",
        f"in {found[DECLINED_CARD]} of the service's {len(files)} files",
        # That the customer's e-mail is found shows that the search is one.
        holds=found[DECLINED_CARD] == 0 < found[EMAIL] and DECLINED_CARD.encode() not in log.body,
    )


async def go_down(scene: Scene) -> None:
    """Place an order with the token that is free again, while the store's system fails in the worst way."""
    till = scene.merchant
    taken, key, order = len(till.taken), str(uuid4()), scene.basket.order
    till.go_down()
    scene.stage.say("The till writes the order down, and fails before its answer is sent.")
    began = monotonic()
    reply = await placed(scene.front, order, key=key)
    took = monotonic() - began
    scene.stage.say(f"Asked {till.failed} times in {took:.1f} s. It is 2 s at most here, 15 s by default.")
    scene.refused("A store that is down is told as such", [reply], 503, "STORE_UNREACHABLE")
    problem = reply.json()
    order_id = scene.basket.joined = problem["orderId"]
    kept = (await scene.front.get(f"{ORDERS}/{order_id}")).json()
    scene.proofs.add(
        "Its order is kept meanwhile",
        f"{kept['state']}, {kept['status']}; retryable {problem['retryable']}",
        holds=(kept["state"], kept["status"], problem["retryable"]) == ("open", "pending", True),
    )
    till.come_back()
    again = await placed(scene.front, order, key=key)
    joined = scene.expect(again, 201, "The same key joins the order")
    orders = (await scene.partner.get(f"/v1/commerce/orders?storeId={scene.stores['pizzeria']}")).json()
    here = [one for one in orders["orders"] if one["orderId"] == order_id]
    there = [one for one in till.taken[taken:] if one == order_id]
    number = till.book[order_id].answer["partnerOrderId"]
    scene.stage.say(f"The till knows the webhook-id, and answers as it would have: {number}.")
    scene.proofs.add(
        "The same key joins: one order in all",
        f"{len(here)} here, {len(there)} there",
        holds=len(here) == len(there) == len(till.taken) - taken == 1
        and (joined["orderId"], joined["partnerOrderId"]) == (order_id, number)
        and till.repeats == 1,
    )
    await scene.kitchen.cook(order_id)
