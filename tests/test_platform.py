"""The platform could serve another business: neither its code nor its comments have a word of commerce."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mercato.platform

ROOT = Path(mercato.platform.__file__).parent

COMMERCE = re.compile(r"(orders|stores|(cart|catalog|menu|merchant|storefront)s?)")
"""Words of commerce. `order` and `store` alone are plain English."""

NAMED = {"order", "store"}
"""Words that name a thing of commerce if they are a part of an identifier."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SQL = {"order_by", "temp_store"}
"""Words of SQL: ORDER BY as SQLAlchemy spells it, and SQLite's pragma."""

PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words_of_commerce(text: str) -> Iterator[str]:
    for identifier in IDENTIFIER.findall(text):
        parts = [part.lower() for part in PART.findall(identifier)]
        is_compound = len(parts) > 1 and identifier not in SQL
        if any(COMMERCE.fullmatch(part) or (is_compound and part in NAMED) for part in parts):
            yield identifier


@pytest.mark.parametrize(
    "text",
    [
        "the orders of",
        "order_id",
        "for_order",
        "OrderError",
        "StoreId",
        "a cart",
        "CATALOG_URL",
        "storefront's",
        "menus",
    ],
)
def test_a_word_of_commerce_is_found(text: str):
    assert list(words_of_commerce(text))


@pytest.mark.parametrize(
    "text", ["in this order", "ordering_key", "stored_at", "restore", "order_by(id)", "store it"]
)
def test_plain_english_is_not_commerce(text: str):
    assert not list(words_of_commerce(text))


def test_the_platform_has_no_word_of_commerce():
    found = []
    for path in sorted(ROOT.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        name = str(path.relative_to(ROOT))
        found += [f"{name}: {word}" for word in words_of_commerce(name)]
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # data, not text
        found += [
            f"{name}:{number}: {word}"
            for number, line in enumerate(lines, start=1)
            for word in words_of_commerce(line)
        ]
    assert not found, "\n".join(found)
