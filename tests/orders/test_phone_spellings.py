"""A customer's phone number is the same, however a device, a clerk or a spreadsheet spells it."""

import pytest

from mercato.features.orders.search import ContactKeys, SearchKind, may_be_phone, normal_email, normal_phone
from mercato_contract.placements import Customer

E164 = "+31612345678"
KEYS = ContactKeys([b"k" * 32])

INTERNATIONAL = (
    E164,
    "+31 6 1234 5678",
    "+31 6 1234 5678.",
    "+ 31 6 12345678",
    "+31-6-1234-5678",
    "+31 (0)6 12345678",
    "+31(0)612345678",
    "(+31) 612345678",
    "'+31612345678",
    "0031612345678",
    "00 31 6 12345678",
    "0031-(0)6-12345678",
    "tel:+31612345678",
    "+31612345678;ext=12",
    "+31612345678 #12",
    "+31 6 1234 5678 (Ada)",
    "+31\N{NO-BREAK SPACE}6\N{NO-BREAK SPACE}12345678",
    "+31\N{NARROW NO-BREAK SPACE}6\N{THIN SPACE}1234\N{FIGURE SPACE}5678",
    "\N{LEFT-TO-RIGHT EMBEDDING}+31612345678\N{POP DIRECTIONAL FORMATTING}",
    "\N{FULLWIDTH PLUS SIGN}31612345678",
    "+\u0663\u0661\u0666\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668",
)
NATIONAL = (
    "0612345678",
    "06 12345678",
    "(06) 12 34 56 78",
    "[06] 12345678",
    "06-12345678",
    "06 - 12 34 56 78",
    "06.12.34.56.78",
    "06/12345678",
    "06_12345678",
    "06,12345678",
    "06~12345678",
    "0 6 1 2 3 4 5 6 7 8",
    "Tel. 06 12345678",
    "06 12345678 ext. 12",
    "06 12345678 x12",
    "06 12345678 toestel 12",
    "06\N{NON-BREAKING HYPHEN}12345678",
    "06\N{EN DASH}12345678",
    "06\N{MINUS SIGN}12345678",
    "06\N{MIDDLE DOT}12345678",
    "06\N{BULLET} 12345678",
    "06\N{SOFT HYPHEN}12345678",
    "06\N{ZERO WIDTH SPACE}12345678",
    "06\N{FULLWIDTH LEFT PARENTHESIS}12\N{FULLWIDTH RIGHT PARENTHESIS}34\N{IDEOGRAPHIC SPACE}5678",
    "\uff10\uff16\uff0d\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18",
    "\u0660\u0666\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668",
    "\u06f0\u06f6\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8",
    "\u0966\u096c\u0967\u0968\u0969\u096a\u096b\u096c\u096d\u096e",
)


def stored(phone: str, country: str | None) -> int:
    customer = Customer(email="ada@example.com", first_name="Ada", last_name="Lovelace", phone=phone)
    return KEYS.entries_of(customer, country)[SearchKind.PHONE]


@pytest.mark.parametrize("spelling", [*INTERNATIONAL, *NATIONAL])
def test_a_phone_number_is_found_by_any_spelling_and_in_any_spelling(spelling: str):
    assert may_be_phone(spelling)
    assert normal_phone(spelling, "NL") == E164
    assert (SearchKind.PHONE, stored(spelling, "NL")) in KEYS.candidates(E164, ()), "stored so"
    assert (SearchKind.PHONE, stored(E164, "NL")) in KEYS.candidates(spelling, ("BE", "NL")), "typed so"


@pytest.mark.parametrize("spelling", INTERNATIONAL)
def test_a_number_with_its_country_code_needs_no_country(spelling: str):
    assert normal_phone(spelling, None) == E164
    assert normal_phone(spelling, "US") == E164


def test_two_numbers_are_two():
    spellings = [
        "+31612345678",
        "+31612345679",
        "+32612345678",
        "+33612345678",
        "+12125550100",
        "+12125550101",
    ]
    assert len({normal_phone(spelling, "NL") for spelling in spellings}) == len(spellings)


@pytest.mark.parametrize(
    "text",
    ["", "A-1042", "12345", "Forno Lucia", "0192f3a4-7b1c-7d2e-8f3a-9c21aa079c21", "9c21aa07", "+", "((("],
)
def test_what_has_too_few_digits_or_other_letters_is_no_phone_number(text: str):
    assert not may_be_phone(text)


def test_an_email_address_is_the_same_whatever_nobody_sees_in_it():
    for text in (" ADA@Example.com ", "ada@exam\N{ZERO WIDTH SPACE}ple.com", "\uff41da@example.com"):
        assert normal_email(text) == "ada@example.com"
