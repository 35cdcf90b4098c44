"""The encoding and the delimiter of a CSV file are told from what is in it, or asked for: nothing is misread."""
# ruff: noqa: RUF001  # texts of menus

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.spreadsheets.sheets import EUROS, csv_of, priced, prices_of, read

from mercato_tools.imports.spreadsheets.cells import MAX_ROWS, UnreadableError
from mercato_tools.imports.spreadsheets.text_files import Delimiter, Encoding, decode

FRENCH = "Crème brûlée – à la carte, 5 €; Œufs, Noël, l’été"
PORTUGUESE = "Açaí na tigela, pão de queijo"
GERMAN = "Weißwürste mit süßem Senf, Grüße aus München, Äpfel"


@pytest.mark.parametrize("text", [FRENCH, GERMAN, "plain"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_told_apart_with_and_without_its_mark(text: str, encoding: str):
    assert decode(text.encode(encoding), None) == text


def test_utf_16_with_the_other_mark():
    assert decode(codecs.BOM_UTF16_BE + FRENCH.encode("utf-16-be"), None) == FRENCH


@pytest.mark.parametrize(
    "text", ["Crème brûlée, café crème", GERMAN, "Jalapeño, piñata", "Smørrebrød på rugbrød", PORTUGUESE]
)
@pytest.mark.parametrize("encoding", [Encoding.WINDOWS_1252, Encoding.MAC_ROMAN])
def test_windows_and_mac_are_told_apart_by_their_letters(text: str, encoding: Encoding):
    assert decode(text.encode(encoding.value), None) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Борщ, сметана", Encoding.WINDOWS_1251),
        ("Pierogi z łososiem, żurek", Encoding.WINDOWS_1250),
        ("寿司と刺身", Encoding.SHIFT_JIS),
        ("北京烤鸭", Encoding.GB18030),
        ("김치찌개", Encoding.EUC_KR),
        ("Σαλάτα χωριάτικη", Encoding.WINDOWS_1253),
    ],
)
def test_another_encoding_is_asked_for_and_then_read(text: str, encoding: Encoding):
    with pytest.raises(UnreadableError, match="its encoding can't be told: it could say"):
        decode(text.encode(encoding.value), None)
    assert decode(text.encode(encoding.value), encoding) == text


@given(
    st.text(alphabet=st.sampled_from("abcdefghij ,;éèàüößñçÄ€–’"), max_size=40),
    st.sampled_from([Encoding.WINDOWS_1252, Encoding.MAC_ROMAN]),
)
def test_a_western_text_is_read_as_it_was_written_or_asked_about(text: str, encoding: Encoding):
    """If it can be read as another text too, the file is refused."""
    try:
        read_as = decode(text.encode(encoding.value), None)
    except UnreadableError:
        return
    if read_as != text:
        # Words may be wrong, which the preview shows, but no digit and no mark is.
        assert [one for one in read_as if one.isascii()] == [one for one in text if one.isascii()]


def test_a_chosen_encoding_that_does_not_fit_names_the_line():
    with pytest.raises(UnreadableError, match=r"Line 2 of the file isn't UTF-8. Choose another encoding"):
        decode(b"a\n\xe9\n", Encoding.UTF_8)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252", "mac-roman"])
@pytest.mark.parametrize(("delimiter", "price"), [(",", "9.50"), (";", "9,50"), ("\t", "9,50")])
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_what_each_program_writes_is_read(encoding: str, delimiter: str, price: str, end: str):
    rows = [("item", "price"), ("Crème brûlée", price), ("Two\nlines, café", price)]
    made = read(csv_of(rows, delimiter=delimiter, encoding=encoding, end=end))
    assert prices_of(made) == ["9.50", "9.50"]
    assert made.summary is not None
    assert [item.name for item in made.summary.shown] == ["Crème brûlée", "Two lines, café"]


def test_excels_line_for_the_delimiter_is_not_a_row():
    assert prices_of(read(b"sep=;\r\nitem;price\r\nA;1,50\r\n")) == ["1.50"]
    made = read(b"sep=;\r\nitem;price\r\nA;soon\r\n")
    assert [fault.row for fault in made.faults] == [2]


@pytest.mark.parametrize("delimiter", [*Delimiter])
def test_the_delimiter_can_be_chosen(delimiter: Delimiter):
    content = csv_of(priced("1"), delimiter=delimiter.character)
    assert prices_of(read(content, replace(EUROS, delimiter=delimiter))) == ["1.00"]


def test_a_delimiter_within_texts_misleads_nobody():
    rows = [
        ("item", "price", "description"),
        ("A", "1", "with, some; commas;;;;"),
        ("B", "2", 'and "quotes"'),
    ]
    for delimiter in (",", ";", "\t"):
        assert prices_of(read(csv_of(rows, delimiter=delimiter))) == ["1.00", "2.00"]


@pytest.mark.parametrize("headings", [("Item:", "Price:"), ("Item*", "Price"), ("Item *", "Price :")])
def test_a_title_above_headings_with_marks_misleads_nobody(headings: tuple[str, str]):
    rows = [("Lunch, dinner, and late",), headings, ("A", "1,50")]
    assert prices_of(read(csv_of(rows, delimiter=";").replace(b'"', b""))) == ["1.50"]


@pytest.mark.parametrize(("text", "row"), [('item,price\n"A,1\n', 2), ('item,price\nA,1\nB,"2"x\n', 3)])
def test_a_missing_quotation_mark_names_its_row(text: str, row: int):
    made = read(text.encode())
    assert made.faults[0].row is not None
    assert made.faults[0].row >= row
    assert "quotation mark" in made.faults[0].message


def test_more_rows_than_a_sheet_has_are_refused():
    content = b"item,price\n" + b"a,1\n" * (MAX_ROWS + 1)
    assert "more than 100,000 rows" in read(content).faults[0].message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"%PDF-1.7 ...", "is a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 512, "has a password"),
        (b"PK\x03\x04junk", "damaged"),
        (b"<html></html>", "None of the first 20 rows has the headings"),
    ],
)
def test_another_kind_of_file_is_named(content: bytes, said: str):
    assert said in read(content).faults[0].message


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(content: bytes):
    made = read(content)
    assert (made.document is None) == bool(made.fault_count)
