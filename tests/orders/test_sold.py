"""What reports read of an order is stored beside its content, and found in the content of older orders."""

from typing import Any

import pytest
from tests.orders.samples import CAKE, TEA, cafe, checked, line, order

from mercato.features.orders.record import OrderContent
from mercato.features.orders.sold import SoldLine, sold_in, sold_of
from mercato_contract.amounts import wire
from mercato_contract.wire import as_json


def without_names() -> Any:
    document = cafe()
    for item in document["items"].values():
        item.pop("name", None)
    return document


@pytest.mark.parametrize("document", [cafe(), without_names()], ids=["named", "without names"])
@pytest.mark.parametrize("tip", ["0.00", "1.25"])
def test_what_is_stored_of_an_order_is_what_its_content_says(document: Any, tip: str):
    check = checked(order(line(TEA, 2), line(CAKE, 3, note="warm"), amounts={"tip": tip}), document=document)
    assert check.sums is not None
    content = OrderContent(cart=check.cart, amounts=wire(check.sums))
    sold = sold_of(content.cart, content.amounts, check.currency)
    assert sold == sold_in(as_json(content), check.currency)
    names = [document["items"][item].get("name") for item in (TEA, CAKE)]
    assert sold.lines == (SoldLine(2, names[0]), SoldLine(3, names[1]))
