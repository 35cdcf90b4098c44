"""Splits texts and queries into words for search, in the same way for both databases.

One normal form serves what is indexed and what is typed: case, accents, width, apostrophes, characters that nobody
sees, and the scripts of digits make no difference. A name that is written in parts (`K.F.C.`, `Chick-fil-A`, `O'Brien`)
is indexed by its parts and as one word. A script without spaces is indexed by pairs of neighbouring letters.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from mercato_catalog.model import DAY_SECONDS, Windows

MAX_LETTERS: Final = 64
"""Letters of one word that are indexed; PostgreSQL has a limit."""

MAX_WORDS: Final = 20_000
"""Distinct words that are kept of one catalog, the first in the document."""

MAX_BYTES: Final = 400_000
"""Bytes of all words together: a tsvector may have a megabyte."""

MIN_FORGIVEN: Final = 5
"""Letters of the shortest word in which one letter may be wrong, as it is searched or as it is stored."""

MAX_FORGIVEN: Final = 24
"""Letters of the longest such word as it is searched: hardly any name of a dish has more."""

MAX_VARIANTS: Final = 2000
"""Variants of all words of one query. PostgreSQL takes the square of their number in time, and at most a megabyte."""

_LATIN: Final = "abcdefghijklmnopqrstuvwxyz"

_BLOCK: Final = 128
"""Code points among which the letters of one alphabet are, other than the Latin one."""

MIN_PREFIX: Final = 2
"""Letters of the shortest prefix: nearly every store would match a single one."""

_ASCII: Final = re.compile(r"[a-z0-9]+")
_LOWER: Final = bytes(ord(chr(byte).lower()) if chr(byte).isalnum() else 32 for byte in range(128)) + bytes(
    range(128, 256)
)
"""Letters in lower case and digits; a blank for any other ASCII character."""

_BATCH: Final = 128
"""Texts that are split at a time, so that their words stay in the processor's cache."""

# Unicode has no property for these. What keyboards and pens make of an apostrophe: accents that stand alone, modifier
# letters (Hawaiian and other okinas), quotation marks, primes, and the Hebrew and Armenian marks.
_APOSTROPHE: Final = "'"
_QUOTES: Final = (
    "`\u00b4\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ca\u02cb\u055a\u05f3\u07f4\u07f5\u1fbd\u1fbf\u1fef"
    "\u1ffd\u1ffe\u2018\u2019\u201b\u2032\u2035\ua78b\ua78c\uff07\uff40"
)
# Nobody sees or says them: fillers and joiners that Unicode lists as default ignorable, and marks of trade, which a
# normal form would spell `tm`. The category of format characters is added where one occurs (`_is_unseen`).
_UNSEEN: Final = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2065\u3164\uffa0\u2120\u2122"
_VARIATION_SELECTORS: Final = range(0xFE00, 0xFE10)
_REWRITTEN: Final = {ord(mark): _APOSTROPHE for mark in _QUOTES} | dict.fromkeys(
    (*map(ord, _UNSEEN), *_VARIATION_SELECTORS)
)
# Letters that no normal form decomposes: with a stroke, the dotless i, ligatures. Arabic letters as the normalizers of
# Lucene for Arabic, Persian and Sorani map them: yeh, alef maqsura and yeh barree are one letter, so are kaf and keheh,
# and heh, heh goal and teh marbuta; the filler goes.
_EQUIVALENTS: Final = str.maketrans(
    {
        "\u00f8": "o",
        "\u0111": "d",
        "\u00f0": "d",
        "\u0142": "l",
        "\u0127": "h",
        "\u0131": "i",
        "\u00e6": "ae",
        "\u0153": "oe",
        "\u00fe": "th",
        "\u0640": None,
        "\u0649": "\u064a",
        "\u06cc": "\u064a",
        "\u06d2": "\u064a",
        "\u06a9": "\u0643",
        "\u0629": "\u0647",
        "\u06c1": "\u0647",
        "\u06d5": "\u0647",
        "\u0671": "\u0627",
    }
)
_GERSHAYIM: Final = re.compile('(?<=[\u05d0-\u05ea])["\u05f4\u201d\u2033](?=[\u05d0-\u05ea])')
"""In Hebrew acronyms, before their last letter."""

_POSSESSIVE: Final = re.compile(r"'([^\W\d_])$")
_ENDS: Final = ". '-\n"
_JOINTS: Final = re.compile("[. '-]")
_WORD_JOINTS: Final = re.compile("[. -]+")

# Han, Kana, Hangul (which has spaces, but glues words together), Thai, Lao, Myanmar, Khmer.
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_PICTURES: Final = "\u2600-\u27bf\U0001f000-\U0001faff"
# `re` doesn't count the vowel signs of India's scripts and of Tibetan as letters.
_WITH_SIGNS: Final = "\u0900-\u0963\u0966-\u0dff\u0f40-\u0fbc"
_PIECES: Final = (
    f"(?P<unspaced>[{_UNSPACED}]+)|(?P<picture>[{_PICTURES}])"
    f"|(?P<word>(?:[^\\W_{_UNSPACED}{_PICTURES}]|[{_WITH_SIGNS}])+)"
)
"""Compiled at its first use: it takes milliseconds, and a service with ASCII names never needs it."""


def _patterns(word: str, letter: str, either: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds names in parts: single letters in a row (`k.f.c.`, `t g i`), and words that are joined.

    Words are joined by hyphens, apostrophes or dots: `chick-fil-a`, `o'brien's`, `j.co`, `7-eleven`, but not `0.5`.
    A match begins with the character before the name: `re` finds one of a class far faster than the beginning of a
    word. `word` has the characters of words, `letter` and `either` are the classes of letters, and with digits.
    """
    initials = rf"[^{word}']{letter}(?:(?:\. ?| ){letter}\b)+(?!')"
    joined = rf"[^{word}.'-](?:{letter}{either}*+|[0-9]++(?=-{letter}))(?:[.'-]++{either}++)++"
    return re.compile(initials), re.compile(joined)


# Without the scripts whose vowel signs `re` takes for the end of a word.
_IN_PARTS: Final = _patterns(r"\w", f"[^\\W\\d_{_WITH_SIGNS}]", f"[^\\W_{_WITH_SIGNS}]")
_IN_PARTS_ASCII: Final = _patterns("a-z0-9_", "[a-z]", "[a-z0-9]")
"""They take half the time."""

_KINDS: Final = bytes(
    ord("a" if chr(byte).isalpha() else "0" if chr(byte).isdigit() or byte == ord("_") else " ")
    for byte in range(128)
) + bytes(128)
_INITIALS: Final = b" a a "
"""Two single letters in a row: `a` is a letter, `0` any other character of a word."""

_FIRST_ACCENT: Final = 10
"""Lower combining classes aren't accents: they make another letter, as in Kana and in the scripts of India."""

_THAI_TONES: Final = {103, 107, 118, 122}


class Piece(NamedTuple):
    """A word, or a run of a script without spaces."""

    text: str
    unspaced: bool


class Term(NamedTuple):
    """A condition on the indexed words: the word itself, with `prefix` any word that begins with it, or a variant.

    `completions` are the words that begin with it, if they are known.
    """

    text: str
    prefix: bool = False
    variants: tuple[str, ...] = ()
    completions: tuple[str, ...] = ()


def split(text: str) -> list[Piece]:
    """Return the normalized words of a text, in order."""
    return _split_normalized(_normalize(text))


def _split_normalized(plain: str) -> list[Piece]:
    plain = plain.replace(_APOSTROPHE, "")
    if plain.isascii():
        return [Piece(word, False) for word in _ASCII.findall(plain)]
    return [Piece(match[0], match.lastgroup == "unspaced") for match in re.finditer(_PIECES, plain)]


def _names_in_parts(plain: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a normalized text that are written in parts, each with the text before it; last the rest."""
    if not _may_have_parts(plain):
        yield plain, ""
        return
    initials, joined = _IN_PARTS_ASCII if plain.isascii() else _IN_PARTS
    text = f" {plain}"
    found = [(match.start(), match[0][1:]) for names in (joined, initials) for match in names.finditer(text)]
    if not plain.isascii():
        found = [(start, name) for start, name in found if not any(piece.unspaced for piece in split(name))]
    at = 0
    for start, name in sorted(found, key=itemgetter(0)):
        if start >= at:
            yield plain[at:start], name
            at = start + len(name)
    yield plain[at:], ""


def _may_have_parts(plain: str) -> bool:
    """Tell, in a tenth of the time that it takes to find them, whether there may be names in parts."""
    plain = plain.rstrip(_ENDS)  # a mark at the end, as in `ada l.`, joins nothing
    if not plain.isascii() or "." in plain or "-" in plain or _APOSTROPHE in plain:
        return True
    # Without those marks a name in parts is initials with blanks between, `t g i`.
    return _INITIALS in f" {plain} ".encode().translate(_KINDS)


def _parts_of(name: str) -> list[str]:
    """Return the parts of a name: of `o'brien's-pub` they are `o`, `briens` and `pub`."""
    words = [_POSSESSIVE.sub(r"\1", word) for word in _WORD_JOINTS.split(name)]
    return [part for word in words for part in word.split(_APOSTROPHE) if part]


def _added_words(name: str) -> Iterator[str]:
    """Yield what is indexed of a name in parts beside its words: the one word, and its parts.

    Of `o'brien's` these are `obriens`, `o`, `briens` and, without its possessive, `brien`.
    """
    yield _JOINTS.sub("", name)
    for word in _WORD_JOINTS.split(name):
        if _APOSTROPHE in word:
            yield from _parts_of(word)
            yield from _POSSESSIVE.sub("", word).split(_APOSTROPHE)


def added_words(text: str) -> Iterator[str]:
    """Yield what is indexed of a text's names in parts, such as `o'brien`, beside the words that `split` returns."""
    for _, name in _names_in_parts(_normalize(text)):
        if name:
            yield from filter(None, _added_words(name))


def words_of(texts: Sequence[str]) -> list[str]:
    """Return the distinct words to index, in order of first appearance, within the limits."""
    found = dict.fromkeys(chain.from_iterable(_split_batches(texts)))
    first = list(islice(found, MAX_WORDS))
    if max(map(len, first), default=0) <= MAX_LETTERS:
        joined = b" ".join(first)
        if len(joined) < MAX_BYTES:
            return joined.decode().split(" ") if joined else []
    return _limit(dict.fromkeys(word.decode()[:MAX_LETTERS] for word in found))


def _split_batches(texts: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the words of the texts in batches, as bytes, which is the fastest way to split them."""
    added: dict[str, str] = {}
    for at in range(0, len(texts), _BATCH):
        some = texts[at : at + _BATCH]
        plain = "\n".join(some)
        plain = _normalize(plain) if plain.isascii() else "\n".join(_normalize_all(some))
        found: list[str] = []
        for before, name in _names_in_parts(plain):
            if name not in added:
                added[name] = " ".join(_added_words(name))
            found += before, name, " ", added[name], " "
        plain = "".join(found)
        if not plain.isascii():
            plain = "\n".join([line if line.isascii() else _to_indexed(line) for line in plain.split("\n")])
        yield plain.encode().translate(_LOWER, b"'").split()


def _to_indexed(plain: str) -> str:
    """Return the words of a normalized text; a script without spaces as its indexed pairs."""
    return " ".join(chain.from_iterable(map(_index_words, _split_normalized(plain))))


def terms_of(query: str) -> list[Term]:
    """Return the terms that a store must have, all of them; the last word of the query may be a prefix.

    A name in parts is found by all of its parts, or as one word.
    """
    terms: list[Term] = []
    pieces: list[Piece] = []
    for before, name in _names_in_parts(_normalize(query)):
        pieces = _split_normalized(before)
        terms += chain.from_iterable(map(_query_terms, pieces))
        terms += _name_terms(name)
    may_go_on = not pieces or not pieces[-1].unspaced
    if terms and may_go_on and len(terms[-1].text) >= MIN_PREFIX:
        terms[-1] = terms[-1]._replace(prefix=True)
    return list(dict.fromkeys(terms))


def _name_terms(name: str) -> list[Term]:
    whole, parts = _JOINTS.sub("", name)[:MAX_LETTERS], _parts_of(name)
    if len(parts) <= 1:
        return [Term(whole)] if whole else []
    terms = [Term(part[:MAX_LETTERS], variants=(whole,)) for part in parts]
    if name.rfind(_APOSTROPHE) > max(name.rfind("-"), name.rfind(".")):
        # Typed letter by letter, "d'ang" is the beginning of the one word.
        terms[-1] = Term(whole, variants=(parts[-1][:MAX_LETTERS],))
    return terms


def variants_of(word: str, *, most: int = MAX_VARIANTS) -> tuple[str, ...]:
    """Return the words that differ from a normalized one in a letter: missing, added or changed.

    There are none if both words would be shorter than MIN_FORGIVEN, if the word is a number or longer than
    MAX_FORGIVEN, or if there were more than `most`.
    """
    if not MIN_FORGIVEN - 1 <= len(word) <= MAX_FORGIVEN or word.isdecimal():
        return ()
    letters = _alphabet_of(word)
    # Counted before they are made: letters of many alphabets have a hundred thousand variants.
    if (2 * len(word) + 1) * len(letters) + len(word) > most:
        return ()
    at_each = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = [start + letter + end for start, end in at_each for letter in letters]
    if len(word) >= MIN_FORGIVEN:
        found += [start + end[1:] for start, end in at_each[:-1]]
        found += [start + letter + end[1:] for start, end in at_each[:-1] for letter in letters]
    return tuple(variant for variant in dict.fromkeys(found) if variant != word)


def _alphabet_of(word: str) -> str:
    """Return the letters that may be missing in a word: those of its own scripts."""
    if word.isascii():
        return _LATIN
    blocks = {ord(letter) // _BLOCK for letter in word if not letter.isascii() and letter.isalpha()}
    own = "".join(map(_letters_of, sorted(blocks)))
    return own + _LATIN if any(letter in _LATIN for letter in word) else own


@cache
def _letters_of(block: int) -> str:
    """Return the normalized letters of a block."""
    found = map(chr, range(block * _BLOCK, (block + 1) * _BLOCK))
    return "".join(letter for letter in found if letter.isalpha() and _normalize(letter) == letter)


def key_of(text: str) -> str:
    """Return the sort key of a text: its normalized words, separated by single spaces."""
    return " ".join(piece.text for piece in split(text))


def keys_of(texts: Sequence[str]) -> list[str]:
    """Return the sort key of each text, far faster than one by one."""
    return [" ".join(piece.text for piece in _split_normalized(plain)) for plain in _normalize_all(texts)]


def _index_words(piece: Piece) -> list[str]:
    if not piece.unspaced:
        return [piece.text[:MAX_LETTERS]]
    # The last letter is indexed alone too, so that every letter begins an indexed word and can be searched for.
    text = piece.text
    return [text[at : at + 2] for at in range(len(text))]


def _query_terms(piece: Piece) -> list[Term]:
    if not piece.unspaced:
        return [Term(piece.text[:MAX_LETTERS])]
    text = piece.text
    if len(text) == 1:
        return [Term(text, prefix=True)]
    return [Term(text[at : at + 2]) for at in range(len(text) - 1)]


def _normalize_all(texts: Sequence[str]) -> list[str]:
    """Return the normal form of each text; of one that isn't ASCII with tabs in place of line breaks.

    Those are normalized at once: what is looked up of each letter is looked up once.
    """
    others = [text.replace("\n", "\t") for text in texts if not text.isascii()]
    plain = iter(_normalize("\n".join(others)).split("\n"))
    return [_normalize(text) if text.isascii() else next(plain) for text in texts]


def _normalize(text: str) -> str:
    """Return the text in its normal form, in which every kind of apostrophe is one."""
    if text.isascii():
        return text.lower().replace("`", _APOSTROPHE)
    text = text.translate(_REWRITTEN)
    if unseen := {letter for letter in set(text) if _is_unseen(letter)}:
        text = text.translate(dict.fromkeys(map(ord, unseen)))
    spread = unicodedata.normalize("NFKD", text).casefold()
    if spread.isascii():
        return spread
    accents = dict.fromkeys(ord(letter) for letter in set(spread) if _is_accent(letter))
    bare = spread.translate(accents) if accents else spread
    plain = unicodedata.normalize("NFKC", bare).casefold().translate(_EQUIVALENTS)
    digits = {ord(letter): str(unicodedata.decimal(letter)) for letter in set(plain) if letter.isdecimal()}
    return _GERSHAYIM.sub("", plain.translate(digits))


def _is_unseen(letter: str) -> bool:
    return unicodedata.category(letter) == "Cf"


def _is_accent(letter: str) -> bool:
    combining = unicodedata.combining(letter)
    return combining >= _FIRST_ACCENT and combining not in _THAI_TONES


def _limit(words: Iterable[str]) -> list[str]:
    kept: list[str] = []
    room = MAX_BYTES
    for word in words:
        room -= len(word.encode()) + 1
        if room < 0 or len(kept) == MAX_WORDS:
            break
        kept.append(word)
    return kept


WEEK: Final[Windows] = ((0, 7 * DAY_SECONDS),)


class SetSearch(msgspec.Struct, frozen=True, array_like=True):
    """`words` of sections and items, sections first; `spans` in which some catalog is available, merged."""

    words: tuple[str, ...]
    spans: Windows


_decode: Final = msgspec.msgpack.Decoder(SetSearch).decode


def unpack_search(packed: bytes) -> SetSearch:
    """Return the SetSearch of its packed form."""
    return _decode(packed)


def merge_windows(spans: Iterable[tuple[int, int]]) -> Windows:
    """Return the spans in order, with those that overlap or touch merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
