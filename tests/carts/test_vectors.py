"""The vectors are what the rules answer, and have every fault: other languages are held to them."""

import gzip
import json
import random
from typing import Any

import pytest
from tests.carts.vectors import CARTS, CATALOGS, FILES, VECTORS, made, path_of

MAX_BYTES = 6 * 1024 * 1024


def read(number: int) -> Any:
    return json.loads(gzip.decompress(path_of(number).read_bytes()))


@pytest.mark.parametrize("files", [3, pytest.param(FILES, marks=pytest.mark.long)])
def test_the_vectors_are_what_the_rules_answer(files: int):
    for number in random.sample(range(FILES), files):
        assert read(number) == made(number), f"{path_of(number)}: rewrite them: python -m tests.carts.vectors"


def test_the_vectors_are_ten_thousand_and_small():
    assert FILES * CATALOGS * CARTS == 10_000
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < MAX_BYTES


def test_the_vectors_have_every_operation_every_fault_and_every_scale():
    catalogs = [catalog for number in range(FILES) for catalog in read(number)["catalogs"]]
    assert {catalog["catalog"]["currency"] for catalog in catalogs} == {"JPY", "KWD", "USD"}
    carts = [cart for catalog in catalogs for cart in catalog["carts"]]
    assert {cart["operation"] for cart in carts} == {"add", "price", "remove", "update"}
    refusals = {cart["refusal"]["code"] for cart in carts if "refusal" in cart}
    assert refusals == {"ITEM_UNAVAILABLE", "VALIDATION_FAILED", "LINE_ITEM_NOT_FOUND"}
    faults = [fault for cart in carts for fault in (cart.get("refusal") or cart["answer"])["errors"]]
    assert {fault["code"] for fault in faults} == {
        "ITEM_UNAVAILABLE",
        "MODIFIER_LIMIT_EXCEEDED",
        "MODIFIER_REQUIRED",
        "VALIDATION_FAILED",
    }
    text = " ".join(fault["message"] for fault in faults)
    for words in (
        "is sold out",
        "is not sold by itself",
        "is not in the store's current CatalogSet",
        "has no choice",
        "has no modifier group",
        "choose at least",
        "choose at most",
        "of one choice",
        "can be bought",
        "together with the cart's",
        "The amount is out of range",
        "at most 200 lines",
        "at most 8 deep",
    ):
        assert words in text, words
