"""An upload again keeps the ids of rows that kept their name."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generated import examples
from tests.spreadsheets.sheets import EUROS, csv_of

from mercato_catalog.building.packed import unpack
from mercato_tools.imports.spreadsheets.ids import KnownItem, known_items
from mercato_tools.imports.spreadsheets.pages import SheetFile
from mercato_tools.imports.spreadsheets.read import read_menu
from mercato_tools.lint import lint

Row = tuple[str, str]
"""The names of a section and of an item in it."""

CHOICES = csv_of(
    [
        ("group", "option", "price"),
        ("Size", "Small", 0),
        ("Size", "Cola", 1),
        ("Drink", "Cola", 0),
        ("Drink", "Small", 1),
    ]
)


def convert(rows: Sequence[Row], previous: tuple[KnownItem, ...] = ()) -> bytes:
    """Return the CatalogSet of rows, each of which has its own price."""
    table = [
        ("section", "item", "price", "choices"),
        *((*row, number, "Size, Drink") for number, row in enumerate(rows, 1)),
    ]
    options = msgspec.structs.replace(EUROS, previous=previous)
    made = read_menu(SheetFile("menu.csv", csv_of(table)), options, choices=SheetFile("choices.csv", CHOICES))
    assert made.document is not None, made.faults
    return made.document


def known(document: bytes) -> tuple[KnownItem, ...]:
    report, built = lint(document, default_currency="EUR", max_bytes=1 << 20)
    assert built is not None, report.errors
    return known_items(built.body, unpack(built.compiled))


def ids_of(document: bytes) -> dict[Row, str]:
    """Return the ids of the rows. They are of one row each, and of no option."""
    found: Any = json.loads(document)
    ids = {
        (section["name"], found["items"][id_]["name"]): id_
        for section in found.get("sections", {}).values()
        for id_ in section["itemIds"]
    }
    options = [id_ for group in found["modifierGroups"].values() for id_ in group["itemIds"]]
    assert len({*ids.values(), *options}) == len(ids) + len(options) == len(found["items"])
    return ids


NAMES = st.sampled_from(["Cola", "Small", "Margherita", "Funghi"])
SECTIONS = st.sampled_from(["Hot", "Cold", "Pizza", "New"])
MENUS = st.lists(st.tuples(SECTIONS, NAMES), min_size=1, max_size=10, unique=True)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(MENUS, min_size=2, max_size=5))
def test_a_row_that_keeps_its_name_keeps_its_id_however_the_others_change(menus: list[list[Row]]):
    """Added, removed, moved and put in another order: the row in a section keeps the id that it has there."""
    document = convert(menus[0])
    for rows in menus[1:]:
        before, previous = ids_of(document), known(document)
        document = convert(rows, previous)
        after = ids_of(document)
        assert set(after) == set(rows)
        for place in set(before) & set(after):
            assert after[place] == before[place], place
        # As many ids of a name are kept as there are rows of it, moved or not; and each names what it named.
        names_before, names_after = ({id_: name for (_, name), id_ in ids.items()} for ids in (before, after))
        for id_ in set(names_before) & set(names_after):
            assert names_before[id_] == names_after[id_]
        kept = Counter(names_before[id_] for id_ in set(names_before) & set(names_after))
        both = Counter(name for _, name in before) & Counter(name for _, name in after)
        assert kept == both
        # The same file again changes nothing.
        assert ids_of(convert(rows, known(document))) == after


@settings(max_examples=examples(200), deadline=None)
@given(MENUS, st.randoms())
def test_without_a_menu_before_the_order_of_the_rows_is_no_part_of_an_id(rows: list[Row], chance: Any):
    """Or the id of one would come to mean another of that name, in open carts, too."""
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert ids_of(convert(rows)) == ids_of(convert(shuffled))


@pytest.mark.parametrize("first", [True, False])
def test_an_item_keeps_its_id_when_its_name_begins_to_occur_in_a_second_section(first: bool):
    before = convert([("Hot", "Small")])
    rows = [("Cold", "Small"), ("Hot", "Small")]
    after = ids_of(convert(rows if first else rows[::-1], known(before)))
    assert after["Hot", "Small"] == ids_of(before)["Hot", "Small"]


def test_items_keep_their_ids_when_their_section_has_another_name():
    before = convert([("Hot", "Small"), ("Cold", "Small"), ("Cold", "Cola")])
    after = ids_of(convert([("Hot", "Small"), ("Chilled", "Small"), ("Chilled", "Cola")], known(before)))
    assert list(after.values()) == list(ids_of(before).values())


def test_what_remains_of_a_name_keeps_its_id_when_the_first_is_deleted_and_written_again():
    before = convert([("Hot", "Small"), ("Cold", "Small")])
    alone = convert([("Cold", "Small")], known(before))
    again = ids_of(convert([("Hot", "Small"), ("Cold", "Small")], known(alone)))
    assert ids_of(alone)["Cold", "Small"] == again["Cold", "Small"] == ids_of(before)["Cold", "Small"]


def test_ids_of_a_menu_of_another_origin_are_kept_as_its_document_has_them():
    """Also one that isn't a UUID, and that of an item in two sections, which one of its rows keeps."""
    document = {
        "currency": "EUR",
        "catalogs": {"c": {"name": "Menu", "sectionIds": ["s", "t"]}},
        "sections": {"s": {"name": "HOT", "itemIds": ["4711"]}, "t": {"name": "Cold", "itemIds": ["4711"]}},
        "items": {"4711": {"name": "small ", "basePrice": "1.00"}},
    }
    after = ids_of(convert([("Cold", "Small"), ("Hot", "Small")], known(json.dumps(document).encode())))
    assert after["Cold", "Small"] == "4711" != after["Hot", "Small"]


def test_an_id_of_an_option_stays_the_options():
    options: Any = json.loads(convert([("Hot", "Small")]))
    taken = next(id_ for group in options["modifierGroups"].values() for id_ in group["itemIds"])
    ids_of(convert([("Hot", "Cola")], (KnownItem(taken, "Hot", "Cola"),)))
