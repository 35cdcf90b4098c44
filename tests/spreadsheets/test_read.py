"""A menu of a spreadsheet becomes a CatalogSet; what is wrong is reported by sheet, row and column, all at once."""

import json
from datetime import date, time
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spreadsheets.sheets import EUROS, HEAD, both, csv_of, ods_of, priced, read, saved, xlsx_of

from mercato_contract.money import SCALES, minor_to_decimal
from mercato_tools.imports.spreadsheets.cells import MAX_FAULTS
from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU
from mercato_tools.imports.spreadsheets.pages import SheetFile
from mercato_tools.imports.spreadsheets.prices import DecimalMark
from mercato_tools.imports.spreadsheets.read import SheetMenu, SheetOptions, read_menu
from mercato_tools.imports.spreadsheets.template import csv_template, xlsx_template
from mercato_tools.lint import lint

Menu = dict[str, Any]

CHOICE_HEAD = CHOICES.columns
SIZES = [CHOICE_HEAD, ("Size", 1, 1, None, "Small", 0), (None, None, None, None, "Large", 2.5)]


def document(made: SheetMenu) -> Menu:
    assert made.document is not None, made.faults
    report, _ = lint(made.document, default_currency="USD", max_bytes=32 << 20)
    assert report.valid, report.errors
    found: Menu = json.loads(made.document)
    return found


def by_name(found: Menu, table: str) -> dict[str, Menu]:
    return {one["name"]: one for one in found[table].values()}


def ids(found: Menu, table: str) -> dict[str, str]:
    return {one["name"]: key for key, one in found[table].items()}


def faults(made: SheetMenu) -> list[tuple[str, str]]:
    assert made.document is None
    return [(fault.place, fault.message) for fault in made.faults]


@pytest.mark.parametrize("write", [xlsx_of, ods_of])
def test_a_workbook_has_the_menu_and_its_choices(write: Any):
    rows = [
        HEAD,
        ("Pizza", "Margherita", "Tomato\nand mozzarella", 9.5, "size", True, "https://example.com/m.jpg"),
        (None, 42, None, "10,50", None, "no", None),
    ]
    found = document(read(write(both(rows, SIZES))))
    items = by_name(found, "items")
    assert items["Margherita"]["description"] == "Tomato\nand mozzarella"
    assert items["Margherita"]["basePrice"] == "9.50"
    assert items["Margherita"]["imageUrl"] == "https://example.com/m.jpg"
    assert items["42"]["basePrice"] == "10.50"
    assert items["42"]["isAvailable"] is False
    assert items["Large"]["basePrice"] == "2.50"
    [group] = found["modifierGroups"].values()
    assert (group["minimumAllowed"], group["maximumAllowed"]) == (1, 1)
    assert items["Margherita"]["modifierGroupIds"] == list(found["modifierGroups"])
    [section] = found["sections"].values()
    assert section["itemIds"] == [ids(found, "items")[name] for name in ("Margherita", "42")]


def test_the_template_is_a_menu_in_each_of_its_forms():
    of_csv = read(csv_template(MENU), choices=csv_template(CHOICES))
    of_xlsx = read(xlsx_template())
    assert of_csv.document == of_xlsx.document
    assert set(by_name(document(of_csv), "items")) >= {"Margherita", "Lemonade", "Large", "Anchovies"}
    assert of_csv.summary is not None
    assert (of_csv.summary.sections, of_csv.summary.items, of_csv.summary.options) == (2, 4, 4)


# --- any menu, there and back -------------------------------------------------------------------------

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters=",;#"),
    min_size=1,
    max_size=20,
)


@st.composite
def menus(draw: st.DrawFn) -> tuple[str, list[Any], list[Any]]:
    """Return a currency, groups with options, and sections with items."""

    def distinct(most: int) -> list[str]:
        return draw(
            st.lists(
                NAMES.filter(lambda name: not name.startswith("=")),
                max_size=most,
                unique_by=lambda one: one.casefold(),
            )
        )

    currency = draw(st.sampled_from(["EUR", "USD", "JPY", "KWD", "CLF"]))
    amounts = st.integers(min_value=0, max_value=10**9)
    groups = [
        (
            name,
            draw(st.none() | st.integers(0, 3)),
            draw(st.none() | st.integers(3, 9)),
            draw(st.none() | st.integers(0, 2)),
            [(option, draw(amounts)) for option in distinct(4) or ["One"]],
        )
        for name in distinct(4)
    ]
    offered = [group[0] for group in groups]
    sections = [
        (
            name,
            [
                (
                    item,
                    draw(amounts),
                    draw(st.lists(st.sampled_from(offered), unique=True)) if offered else [],
                    draw(st.booleans()),
                )
                for item in distinct(4)
            ],
        )
        for name in distinct(4)
    ]
    return currency, groups, sections


@settings(max_examples=60, deadline=None)
@given(menus(), st.sampled_from(["csv", "semicolons", "xlsx", "ods"]))
def test_any_menu_in_the_template_has_the_same_prices_and_choices_after_the_import(menu: Any, kind: str):
    currency, groups, sections = menu
    scale = SCALES[currency]
    comma = kind == "semicolons"

    def cell(minor: int) -> Any:
        text = minor_to_decimal(minor, scale)
        if kind in {"xlsx", "ods"}:
            return float(text)
        return text.replace(".", ",") if comma else text

    rows: list[Any] = [HEAD]
    for name, items in sections:
        rows += [
            (name, item, None, cell(price), "; ".join(offered), "yes" if is_sold else "no", None)
            for item, price, offered, is_sold in items
        ]
    choices: list[Any] = [CHOICE_HEAD]
    for name, least, most, free, options in groups:
        for place, (option, price) in enumerate(options):
            choices.append(
                (name, *((least, most, free) if place == 0 else (None, None, None)), option, cell(price))
            )
    sold = {item: price for _, items in sections for item, price, _, _ in items}
    options_ = SheetOptions(
        default_currency=currency, decimal=DecimalMark.COMMA if comma else DecimalMark.POINT
    )
    if kind in {"xlsx", "ods"}:
        content = (xlsx_of if kind == "xlsx" else ods_of)(both(rows, choices))
        made = read(content, options_)
    else:
        delimiter = ";" if comma else ","
        made = read(csv_of(rows, delimiter=delimiter), options_, choices=csv_of(choices, delimiter=delimiter))
    if not sold:
        assert made.document is None
        return
    found = document(made)
    entities = found["items"]
    for name, items in sections:
        if not items:
            continue
        [section] = [one for one in found["sections"].values() if one["name"] == " ".join(name.split())]
        for key, (item, price, offered, is_sold) in zip(section["itemIds"], items, strict=True):
            entity = entities[key]
            assert (entity["name"], entity["basePrice"]) == (item, minor_to_decimal(price, scale))
            assert entity.get("isAvailable", True) is is_sold
            named = [found["modifierGroups"][group] for group in entity.get("modifierGroupIds", [])]
            assert [group["name"] for group in named] == offered
    for name, least, most, free, options in groups:
        [group] = [one for one in found["modifierGroups"].values() if one["name"] == name]
        assert group.get("minimumAllowed", 0) == (least or 0)
        assert group.get("maximumAllowed") == most
        assert group.get("freeQuantity", 0) == (free or 0)
        assert [(entities[key]["name"], entities[key]["basePrice"]) for key in group["itemIds"]] == [
            (option, minor_to_decimal(price, scale)) for option, price in options
        ]


# --- ids ------------------------------------------------------------------------------------------


def ids_of(rows: list[Any], choices: list[Any] | None = None) -> dict[str, str]:
    made = read(csv_of([("section", "item", "price", "choices"), *rows]), choices=csv_of(choices or SIZES))
    found = document(made)
    return ids(found, "items") | ids(found, "sections") | ids(found, "modifierGroups")


def test_an_upload_again_keeps_the_ids_of_rows_that_kept_their_name():
    before = ids_of(
        [("Pizza", "Margherita", 9, "Size"), ("Pizza", "Funghi", 10, ""), ("Drinks", "Cola", 3, "")]
    )
    after = ids_of(
        [
            ("Soft drinks", "cola", 4, ""),
            ("Pizza", "New", 12, ""),
            ("Pizza", " MARGHERITA ", 9.5, ""),
            ("Pizza", "Fungi", 10, ""),
        ],
        [CHOICE_HEAD, ("size", 0, 1, None, "large", 3), ("size", None, None, None, "Small", 1)],
    )
    kept = {
        "MARGHERITA": "Margherita",
        "cola": "Cola",
        "Pizza": "Pizza",
        "size": "Size",
        "large": "Large",
        "Small": "Small",
    }
    assert {name: after[name] for name in kept} == {name: before[old] for name, old in kept.items()}
    assert not {after["New"], after["Fungi"], after["Soft drinks"]} & set(before.values())


def test_items_of_one_name_in_two_sections_have_ids_of_their_own():
    """And none of them the id that the name had alone: it must not come to mean the other one."""
    alone = ids_of([("Hot", "Small", 2, "")])["Small"]
    for rows in (
        [("Hot", "Small", 2, ""), ("Cold", "Small", 3, "")],
        [("Cold", "Small", 3, ""), ("Hot", "Small", 2, "")],
    ):
        made = read(csv_of([("section", "item", "price", "choices"), *rows]))
        found = document(made)
        by_price = {one["basePrice"]: key for key, one in found["items"].items()}
        assert alone not in by_price.values()
        assert len(set(by_price.values())) == 2
        alone_again = by_price
    assert alone_again == by_price


def test_a_csv_file_and_a_workbook_give_the_same_ids():
    rows = [HEAD, ("A", "B", None, 1, None, None, None)]
    assert (
        read(csv_of(rows)).document
        == read(xlsx_of({"anything": rows})).document
        == read(ods_of({"menu": rows})).document
    )


# --- faults by cell -------------------------------------------------------------------------------


def test_all_faults_are_reported_at_once_by_sheet_row_and_column():
    rows = [
        HEAD,
        (None, "Lost", None, 1, None, None, None),
        ("A", "One", None, None, None, None, None),
        ("A", "Two", None, "soon", "Sizes", "perhaps", "picture.jpg"),
        ("A", "One", None, 2, None, None, None),
        ("A", None, None, 3, None, None, None),
        ("A", "Minus", None, -3, None, None, None),
    ]
    choices = [
        CHOICE_HEAD,
        (None, None, None, None, "Nobody's", 0),
        ("Size", "one", 1, None, "Small", 0),
        ("Size", None, 2, None, "Small", "1.234,5.6"),
        ("Size", None, None, -1, None, None),
        ("Milk", 3, 2, None, "Oat", 0),
    ]
    made = read(xlsx_of(both(rows, choices)))
    places = [place for place, _ in faults(made)]
    assert places == [
        "choices, row 2, group (A)",
        "choices, row 3, minimum (B)",
        "choices, row 4, maximum (C)",
        "choices, row 4, price (F)",
        "choices, row 4, option (E)",
        "choices, row 5, free (D)",
        "choices, row 5, option (E)",
        "choices, row 6, minimum",
        "menu, row 2, section (A)",
        "menu, row 3, price (D)",
        "menu, row 4, price (D)",
        "menu, row 4, choices (E)",
        "menu, row 4, available (F)",
        "menu, row 4, image (G)",
        "menu, row 5, item (B)",
        "menu, row 6, item (B)",
        "menu, row 7, price (D)",
    ]
    told = dict(faults(made))
    assert "Did you mean Size?" in told["menu, row 4, choices (E)"]
    assert "has this item in row 3, too" in told["menu, row 5, item (B)"]
    assert made.fault_count == len(made.faults)


def test_faults_are_listed_up_to_a_bound_and_counted_beyond():
    made = read(csv_of(priced(*["soon"] * 5_000)))
    assert made.fault_count == 5_000
    assert len(made.faults) == MAX_FAULTS


def test_a_missing_sheet_of_choices_is_one_fault():
    rows = [("section", "item", "price", "choices"), *[("A", f"I{number}", 1, "Size") for number in range(9)]]
    [(place, message)] = faults(read(xlsx_of({"menu": rows})))
    assert place == "menu, row 2, choices (D)"
    assert "there is no sheet choices (with CSV: no second file)" in message


@pytest.mark.parametrize("name", ["Choises", "choice", "Choices 2"])
def test_a_sheet_with_a_wrong_name_is_named(name: str):
    rows = [("section", "item", "price", "choices"), ("A", "I", 1, "Size")]
    told = faults(read(xlsx_of({"menu": rows, name: SIZES})))
    assert (name, "The sheet is probably that of the choices. Name it choices.") in told


def test_other_sheets_are_losses():
    made = read(xlsx_of({"Notes": [("hello",)], "Menu": priced(1)}))
    assert made.losses[0].path == "/Notes"
    assert made.document is not None


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        (("item", "prise"), "None of the first 20 rows has the headings item and price. Write the headings"),
        (("Produkt", "Preis"), "None of the first 20 rows has the headings item and price."),
        (("Produkt", "Preis"), "Did you mean item?"),
        (("item", "prise"), "Did you mean price?"),
        (("item", "price", "descripton"), "Did you mean description?"),
        (("item", "price", "Price"), "Two columns are named price."),
    ],
)
def test_a_wrong_heading_is_named_with_the_nearest(head: tuple[str, ...], hint: str):
    told = faults(read(csv_of(priced(1, head=head))))
    assert any(hint in message for _, message in told), told


HEADINGS = {
    "German": "Kategorie, Gericht, Beschreibung, Preis (€), Auswahl, Verfügbar, Bild",
    "French": "Catégorie, Plat, Description (fr), Prix en EUR, Choix, Disponible, Photo",
    "Spanish": "Categoría, Artículo, Descripción, Precio, Opciones, Disponible, Imagen",
    "Italian": "Categoria, Piatto, Descrizione, Prezzo, Scelte, Disponibile, Immagine",
    "Dutch": "Categorie, Gerecht, Omschrijving, Prijs, Keuzes, Beschikbaar, Afbeelding",
    "Portuguese": "Categoria, Prato, Descrição, Preço, Opções, Disponível, Imagem",
    "English": "Category, Item name, Details, Unit price, Modifier_groups, In stock, Photo URL",
}


@pytest.mark.parametrize("language", HEADINGS)
@pytest.mark.parametrize("above", range(5))
@pytest.mark.parametrize("delimiter", [",", ";", "\t", None])
def test_headings_of_another_language_are_refused_and_each_names_its_column(
    language: str, above: int, delimiter: str | None
):
    """In the first row or below titles, of a workbook or of CSV. Nothing is read by a guess."""
    rows: list[Any] = [("Speisekarte, Sommer 2026",), ("", ""), ("Tel. 030 123; bar",), ("",)][:above]
    head = HEADINGS[language].split(", ")
    rows += [head, ("Pizza", "Margherita", "", "9,50", "", "", "")]
    file = xlsx_of({"Karte": rows}) if delimiter is None else csv_of(rows, delimiter=delimiter)
    made = read(file)
    assert made.document is None
    first, *others = made.faults
    assert all(column in first.message for column in MENU.columns)
    assert (first.row, [fault.row for fault in others]) == (above + 1, [above + 1] * len(others))
    told = {fault.found: fault.message for fault in others}
    for heading, column in zip(head, MENU.columns, strict=True):
        assert told.pop(heading) == f"This isn't a column of a menu. Did you mean {column}?"
    assert not told


def test_headings_of_choices_in_another_language_name_their_columns():
    sizes = [("Gruppe", "Min", "Max", "Gratis", "Auswahl", "Aufpreis"), ("Size", 1, 1, 0, "Small", 1)]
    made = read(xlsx_of({"menu": priced(1), "choices": sizes}))
    told = {fault.found: fault.message.rpartition(" ")[2] for fault in made.faults[1:]}
    assert told == {head: f"{column}?" for head, column in zip(sizes[0], CHOICES.columns, strict=True)}


def test_a_column_in_another_language_beside_the_required_ones_is_named_and_one_that_is_there_twice_is_a_loss():
    made = read(csv_of([("item", "price", "Beschreibung", "Name"), ("A", 1, "nuts", "B")]))
    assert faults(made) == [("menu, row 1, C", "This isn't a column of a menu. Did you mean description?")]
    made = read(csv_of([("item", "price", "Name"), ("A", 1, "B")]))
    assert "/menu/1/name" in {loss.path for loss in made.losses}
    assert made.document is not None


def test_another_column_is_a_loss():
    made = read(csv_of([("item", "price", "Allergens"), ("A", 1, "nuts")]))
    assert "/menu/1/allergens" in {loss.path for loss in made.losses}
    assert made.document is not None


def test_titles_above_the_headings_are_passed_over_and_repeated_headings_are_a_fault():
    rows = [("Our menu", ""), ("", ""), ("Item", "PRICE:"), ("A", 1)]
    made = read(csv_of(rows))
    assert document(made)
    assert "The rows above the headings aren't read." in {loss.message for loss in made.losses}
    assert faults(read(csv_of([*rows, ("item", "price"), ("B", 2)]))) == [
        ("menu, row 5", "The row repeats the headings. Delete it.")
    ]
    [(place, _)] = faults(read(csv_of([*rows[:3], ("(name)", "(EUR)"), ("A", 1)])))
    assert place == "menu, row 4, price (B)"


@pytest.mark.parametrize("content", [b"", b"\n\n", "\ufeff".encode(), csv_of([("", ""), ("", "")])])
def test_an_empty_file_says_what_to_write(content: bytes):
    [(_, message)] = faults(read(content))
    assert "section, item, description, price, choices, available and image" in message


def test_headings_alone_are_an_empty_menu():
    assert faults(read(csv_of([HEAD]))) == [
        ("menu", "No row has an item. Write each item's name and price below the headings.")
    ]


def test_a_row_with_a_section_alone_begins_it_and_may_describe_it():
    rows = [
        HEAD,
        ("Pizza", None, "From the oven", None, None, None, None),
        (None, "Margherita", None, 9, None, None, None),
    ]
    [section] = document(read(csv_of(rows)))["sections"].values()
    assert (section["name"], section["description"], len(section["itemIds"])) == ("Pizza", "From the oven", 1)


def test_a_group_name_may_have_a_comma():
    choices = [CHOICE_HEAD, ("Milk, or not", 0, 1, None, "Oat", 1), ("Size", 1, 1, None, "Small", 0)]
    rows = [
        ("section", "item", "price", "choices"),
        ("A", "I", 1, "Milk, or not; Size"),
        ("A", "J", 1, "Size, Size"),
    ]
    items = by_name(document(read(csv_of(rows), choices=csv_of(choices))), "items")
    assert (len(items["I"]["modifierGroupIds"]), len(items["J"]["modifierGroupIds"])) == (2, 1)


@pytest.mark.parametrize(
    ("text", "is_sold"),
    [
        ("yes", True),
        ("NEIN", False),
        ("x", True),
        ("", True),
        ("0", False),
        ("FALSCH", False),
        ("VRAI", True),
    ],
)
def test_available_is_what_spreadsheet_programs_write_for_true_and_false(text: str, is_sold: bool):
    found = document(read(csv_of([("item", "price", "available"), ("A", 1, text)])))
    assert by_name(found, "items")["A"].get("isAvailable", True) is is_sold


# --- cells of workbooks ---------------------------------------------------------------------------


def test_formulas_have_their_saved_results_and_errors_are_faults():
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in priced(1, 2):
        sheet.append(list(row))
    sheet["B2"] = "=1+1"  # saved without a result, as a program that can't calculate does
    sheet["B3"] = "#REF!"
    told = dict(faults(read(saved(book))))
    assert "The result of a formula is there only once" in told["Sheet, row 2, price (B)"]
    assert "The cell shows an error" in told["Sheet, row 3, price (B)"]


@pytest.mark.parametrize("column", ["item", "section", "description", "available", "image", "choices"])
def test_an_error_value_is_a_fault_in_every_column(column: str):
    head = ("section", "item", "description", "price", "choices", "available", "image")
    row = {"section": "A", "item": "I", "price": 1} | {column: "#N/A"}
    told = faults(read(xlsx_of({"menu": [head, [row.get(name) for name in head]]})))
    assert any(column in place for place, _ in told), told


@pytest.mark.parametrize("value", [date(2026, 5, 1), time(1, 50)])
@pytest.mark.parametrize("column", [0, 1])
def test_dates_and_times_are_faults_in_every_column(value: Any, column: int):
    row: list[Any] = ["A", 1]
    row[column] = value
    [(_, message)] = faults(read(xlsx_of({"menu": [("item", "price"), row]})))
    assert "a date" in message or "a time" in message


def test_a_percentage_and_another_currency_of_the_format_are_faults():
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in priced(0.5, 1.5, 1.5, 1.5):
        sheet.append(list(row))
    sheet["B2"].number_format = "0%"
    sheet["B3"].number_format = '#,##0.00 "£"'
    sheet["B4"].number_format = "[$$-409]#,##0.00"
    sheet["B5"].number_format = "#,##0.00 [$€-407]"
    told = dict(faults(read(saved(book), SheetOptions(default_currency="USD", currency="EUR"))))
    assert list(told) == ["Sheet, row 2, price (B)", "Sheet, row 3, price (B)", "Sheet, row 4, price (B)"]


def test_merged_cells_stand_for_the_rows_they_span():
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in [("section", "item", "price"), ("Pizza", "A", 1), (None, "B", 2), ("Drinks", "C", 3)]:
        sheet.append(list(row))
    sheet.merge_cells("A2:A3")
    sections = by_name(document(read(saved(book))), "sections")
    assert {name: len(one["itemIds"]) for name, one in sections.items()} == {"Pizza": 2, "Drinks": 1}


@pytest.mark.parametrize("name", ["menu.xlsm", "menu.xlsx"])
def test_macros_of_a_workbook_are_not_read(name: str):
    plain = xlsx_of({"menu": priced(1, 2)})
    packed = BytesIO(plain)
    with ZipFile(packed, "a") as parts:
        parts.writestr("xl/vbaProject.bin", b"\xd0\xcf\x11\xe0 Sub Auto_Open() " * 4_000)
    made = read_menu(SheetFile(name, packed.getvalue()), EUROS)
    assert made.document == read_menu(SheetFile("menu.xlsx", plain), EUROS).document
    assert document(made)["items"]


def test_the_reader_never_raises_for_a_name_of_any_kind():
    for name in ("", ".csv", "a/b\\menu.csv", "\x1b[2J.csv", "x" * 500):
        made = read_menu(SheetFile(name, b"nothing"), EUROS)
        assert all(ord(letter) >= 32 for letter in made.faults[0].sheet)


@pytest.mark.parametrize("write", [xlsx_of, ods_of])
def test_a_workbook_of_which_bytes_are_damaged_is_refused_or_read(write: Any):
    content = write({"menu": priced(1)})
    messages = []
    for start in range(0, len(content), max(1, len(content) // 200)):
        made = read(content[:start] + b"\xff" * 8 + content[start + 8 :])
        messages += [fault.message for fault in made.faults[:1]]
    assert any("damaged" in message for message in messages)
