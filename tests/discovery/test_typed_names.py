"""A store is found by what people type for its name: without dots and hyphens, with the apostrophe that their keyboard
has, in the letters and digits of their language. The same on both databases.
"""

# ruff: noqa: RUF001  # letters of many scripts are what it is about

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.databases import mostly_sqlite
from tests.discovery.store_index import StoreIndex

from mercato_catalog.words import Term, terms_of, words_of

pytestmark = mostly_sqlite

TYPED: dict[str, tuple[str, ...]] = {
    # Initials, with and without dots and blanks.
    "K.F.C.": ("kfc", "k.f.c.", "k.f.c", "k f c", "KFC"),
    "KFC Express": ("k.f.c. express", "k f c express", "kfc exp"),
    "T.G.I. Friday's": ("tgi fridays", "t.g.i. fridays", "tgi friday's", "t g i fridays", "tgi"),
    "P.F. Chang's": ("pf changs", "p.f. changs", "p f chang's", "pf chang's"),
    "U.S. Pizza": ("us pizza", "u.s. pizza", "u s pizza"),
    "J.Co Donuts": ("jco", "j.co", "j co donuts", "jco donuts"),
    "A & W": ("a & w", "a w", "a&w"),
    "J. R. R.'s Inn": ("jrr", "j.r.r."),
    "B.J.'s Restaurant": ("bj", "bjs", "b.j.'s"),
    "C.R.E.A.M. Bar": ("cream bar", "c.r.e.a.m."),
    "П.П.К. Бистро": ("ппк", "п.п.к. бистро"),
    "Α.Β. Βασιλόπουλος": ("αβ βασιλοπουλος", "αβ"),
    # Hyphens and dots.
    "Chick-fil-A": ("chickfila", "chick-fil-a", "chick fil a", "chick-fi", "Chick-fil-A"),
    "7-Eleven": ("7eleven", "7-eleven", "7 eleven", "7-el"),
    "In-N-Out Burger": ("innout", "in-n-out", "in n out burger", "innout burger"),
    "Coca-Cola Museum": ("cocacola", "coca cola", "coca-cola museum"),
    "Ben-Gurion Grill": ("bengurion grill", "ben gurion"),
    "Jean-Georges": ("jeangeorges", "jean georges", "jean-geo"),
    "Booking.com Café": ("bookingcom cafe", "booking.com", "booking com"),
    "Kung-fu": ("kungfu", "kung fu"),
    "Saint-Germain-des-Prés": ("saint germain des pres", "saintgermaindespres", "saint-germain"),
    "Drive-In 66": ("drivein 66", "drive in 66"),
    "Вок-Кафе": ("воккафе", "вок кафе", "вок-кафе"),
    # Apostrophes: left out, a blank in their place, another mark.
    "O'Brien's Pub": ("o brien", "brien", "obrien", "obriens", "o'brien", "o’brien's pub", "o briens pub"),
    "D'Angelo": ("d angelo", "angelo", "dangelo", "d’angelo", "d'ang", "d´angelo"),
    "L'Avenue": ("l avenue", "avenue", "lavenue", "l’avenue"),
    "Cote d'Azur": ("cote d azur", "cote dazur", "côte d’azur", "azur"),
    "McDonald’s": ("mcdonalds", "mcdonald's", "mcdonald", "mcdonald´s"),
    "Wendy's": ("wendys", "wendy", "wendy`s", "wendy‘s"),
    "Papa John's": ("papa johns", "papa john", "papa john’s"),
    "Domino's Pizza": ("dominos pizza", "domino pizza", "domino's pizz"),
    "Jersey Mike's": ("jersey mikes", "mike"),
    "Sant'Agata": ("sant agata", "santagata", "agata", "sant’agata"),
    "Dell'Arte": ("dell arte", "dellarte", "arte"),
    "Aujourd'hui": ("aujourd hui", "aujourdhui", "aujourd’hui"),
    "Jack-in-the-Box's": ("jackintheboxs", "jack in the box"),
    "N'Ice Cream": ("n ice cream", "nice cream", "n’ice"),
    "Ka\u02bbanapali Grill": ("ka'anapali", "kaanapali", "ka‘anapali", "ka anapali", "kaʼanapali"),
    "Hawai\u02bbi Poke": ("hawaii poke", "hawai'i", "hawai‘i poke"),
    "Nu\u02bbuanu Diner": ("nuuanu", "nu'uanu diner", "nu uanu"),
    "Ba\u2032al Four": ("ba'al four", "baal four", "baʹal"),
    "צ\u05f3יפס": ("צ'יפס", "ציפס", "צ’יפס"),
    "ג\u05f3ירף": ("ג'ירף", "גירף"),
    "מסעדת צה\u05f4ל": ('צה"ל', "צהל", "צה”ל"),
    "Կ\u055aԱրտ": ("կ'արտ", "կարտ"),
    "Gu\ua78catemala": ("gu'atemala", "guatemala"),
    "Пʼятниця": ("п'ятниця", "пятниця", "п’ятниця"),
    "Oʻzbekiston": ("o'zbekiston", "ozbekiston", "o‘zbekiston", "oʼzbekiston"),
    "Qur\u02beān Café": ("qur'an cafe", "quran"),
    # Characters that nobody sees.
    "Schnitzel\u00adhaus": ("schnitzelhaus", "schnitzel\u00adhaus", "schnitzel\u200bhaus"),
    "Word\u2060Joiner": ("wordjoiner",),
    "Zero\u200bWidth": ("zerowidth",),
    "Non\u200cJoiner": ("nonjoiner", "non\u200djoiner"),
    "Grapheme\u034fJoiner": ("graphemejoiner",),
    "\ufeffMark First": ("mark first", "\ufeffmark"),
    "Left\u200eRight": ("leftright", "\u200fleftright\u202c"),
    "Em\u2063Bed": ("embed",),
    "می\u200cخواهم": ("میخواهم", "می\u200cخواهم", "ميخواهم"),
    "Heart ❤\ufe0f": ("heart ❤", "heart ❤\ufe0f"),
    "ᠮᠣᠩ\u180bᠭᠣᠯ": ("ᠮᠣᠩᠭᠣᠯ",),
    # Arabic, Persian, Urdu and Pashto letters for one another.
    "کریم": ("كريم", "کریم", "كریم"),
    "مقهى": ("مقهي", "مقهی", "مقهى"),
    "شاي": ("شای", "شاى", "شاي"),
    "كباب": ("کباب", "كباب"),
    "کبابی": ("كبابي", "كبابى"),
    "مطعم أحمد": ("مطعم احمد", "احمد"),
    "إسكندرية": ("اسكندرية", "اسكندريه", "إسکندریه"),
    "آش": ("اش", "آش"),
    "قهوة": ("قهوه", "قهوة"),
    "شاورمة": ("شاورمه",),
    "فلافل السلطان": ("فلافل", "السلطان"),
    "مُشَكَّل": ("مشكل", "مشکل"),
    "حلويّات": ("حلويات", "حلویات"),
    "چلوکبابی": ("چلوكبابي", "چلوکبابى"),
    "نہاری ہاؤس": ("نہاري",),
    "بريانی": ("برياني", "بریانی"),
    "مـطـعـم": ("مطعم",),
    "رز بخاري ٱلطيب": ("الطيب",),
    # Digits of other scripts.
    "٢٤ ساعة": ("24", "٢٤", "۲۴", "24 ساعه"),
    "24 Hours": ("٢٤", "۲۴ hours", "२४", "24 hours", "２４"),
    "Route ۶۶": ("route 66", "٦٦"),
    "कैफे १०१": ("101", "कैफे 101"),
    "ร้าน ๕๕": ("55", "๕๕"),
    "দোকান ৭": ("7", "দোকান 7"),
    "Number １": ("number 1", "1"),
    "Pier 𝟑𝟗": ("pier 39",),
    # Marks of trade, and forms that stand for plain letters.
    "Pepsi™ Bar": ("pepsi bar", "pepsi™ bar", "pepsi"),
    "Burger℠ King®": ("burger king", "burger king®"),
    "Subway®": ("subway",),
    "Ｃａｆｅ Ｍｏｎｏ": ("cafe mono", "ＣＡＦＥ"),
    "Ⓑistro": ("bistro",),
    "Eﬃcient Eats": ("efficient eats",),
    "№ 5": ("no 5", "№ 5"),
    "½ Price": ("price",),
    # Letters with marks, and without.
    "Straße Döner": ("strasse doner", "STRASSE DÖNER", "straße"),
    "Phở Hà Nội": ("pho ha noi", "phở hà nội", "PHO"),
    "Bánh Mì Đặng": ("banh mi dang", "bánh mì"),
    "Łódź Grill": ("lodz grill", "ŁÓDŹ"),
    "Ğüneş Kebabı": ("gunes kebabi", "GÜNEŞ KEBABI"),
    "İstanbul": ("istanbul", "İSTANBUL"),
    "Smørrebrød": ("smorrebrod", "SMØRREBRØD"),
    "Þingvellir": ("thingvellir", "þingvellir"),
    "Œuf": ("oeuf", "œuf"),
    "Ærø Kro": ("aero kro",),
    "São João": ("sao joao", "são"),
    "Niño Ñandú": ("nino nandu",),
    "Ёлки-Палки": ("елки палки", "елкипалки", "ёлки-палки"),
    "Ελληνικό Σπίτι": ("ελληνικο σπιτι", "ΕΛΛΗΝΙΚΟ ΣΠΙΤΙ"),
    "Žižkov": ("zizkov",),
    "Győr Étterem": ("gyor etterem",),
    "Čevabdžinica Đuro": ("cevabdzinica duro",),
    # Scripts without spaces stay found by their letters.
    "寿司屋": ("寿司", "司屋"),
    "ラーメン横丁": ("ﾗｰﾒﾝ", "ラーメン", "横丁"),
    "김치나라": ("김치", "나라"),
    "ร้านส้มตำ": ("ส้มตำ",),
    # Ordinary names are what they were.
    "Joe's Café": ("joes cafe", "JOE'S", "cafe"),
    "Pizza Hut": ("pizza hut", "hut", "piz"),
}
PAIRS = [(name, typed) for name, all_typed in TYPED.items() for typed in all_typed]


@pytest.fixture
async def full(index: StoreIndex) -> StoreIndex:
    await index.put_all((name, None, {}) for name in TYPED)
    return index


async def test_a_store_is_found_by_what_people_type_for_its_name(full: StoreIndex):
    missed = [(name, typed) for name, typed in PAIRS if name not in await full.names(query=typed)]
    assert missed == []
    assert len(PAIRS) >= 228


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("K.F.C.", "kfcc"),
        ("O'Brien's Pub", "rien"),
        ("Joe's Café", "s"),
        ("Chick-fil-A", "fila"),
        ("Pepsi™ Bar", "pepsitm"),
        ("24 Hours", "٢٥"),
        ("0.5 Litre", "05"),
    ],
)
def test_a_part_that_nobody_means_finds_nothing(name: str, typed: str):
    assert not is_found(words_of([name]), typed)


def is_found(words: list[str], typed: str) -> bool:
    return all(has(words, term) for term in terms_of(typed))


def has(words: list[str], term: Term) -> bool:
    return any(
        word in {term.text, *term.variants} or (term.prefix and word.startswith(term.text)) for word in words
    )


@given(st.text(max_size=60))
def test_every_name_is_found_by_itself(name: str):
    assert is_found(words_of([name]), name)


@given(
    st.lists(st.sampled_from([*"abK7é", "'", "’", ".", "-", " ", "ʻ", "\u200b", "ي", "寿"]), max_size=14).map(
        "".join
    )
)
def test_every_name_in_parts_is_found_by_itself_and_without_its_marks(name: str):
    words = words_of([name])
    assert is_found(words, name)
    assert is_found(words, name.upper())
    assert is_found(words, name.replace("’", "'").replace("ʻ", "'").replace("\u200b", ""))
