"""Splits texts and queries into words for search, in the same way for both databases.

Case, accents, width and apostrophes make no difference. A script without spaces is indexed by pairs of neighbouring
letters.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
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

_APOSTROPHES: Final = str.maketrans(dict.fromkeys("'`\u00b4\u02bc\u2018\u2019"))
# Letters that no normal form decomposes: with a stroke, the dotless i, ligatures; and Arabic's filler.
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
    }
)

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
    if text.isascii():
        return [Piece(word, False) for word in _ASCII.findall(_normalize_ascii(text))]
    return _split_normalized(_normalize(text))


def _split_normalized(plain: str) -> list[Piece]:
    return [Piece(match[0], match.lastgroup == "unspaced") for match in re.finditer(_PIECES, plain)]


def words_of(texts: Sequence[str]) -> list[str]:
    """Return the distinct words to index, in order of first appearance, within the limits."""
    found = dict.fromkeys(chain.from_iterable(_split_batches(texts)))
    if len(found) <= MAX_WORDS and max(map(len, found), default=0) <= MAX_LETTERS:
        joined = b" ".join(found)
        if len(joined) < MAX_BYTES:
            return joined.decode().split(" ") if joined else []
    return _limit(dict.fromkeys(word.decode()[:MAX_LETTERS] for word in found))


def _split_batches(texts: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the words of the texts in batches, as bytes, which is the fastest way to split them."""
    for at in range(0, len(texts), _BATCH):
        some = texts[at : at + _BATCH]
        joined = "\n".join(some)
        if not joined.isascii():
            joined = "\n".join([text if text.isascii() else _to_ascii_words(text) for text in some])
        yield joined.encode().translate(_LOWER, b"'`").split()


def _to_ascii_words(text: str) -> str:
    """Return the normalized text; a script without spaces as its indexed pairs."""
    plain = _normalize(text)
    return (
        plain
        if plain.isascii()
        else " ".join(chain.from_iterable(map(_index_words, _split_normalized(plain))))
    )


def terms_of(query: str) -> list[Term]:
    """Return the terms that a store must have, all of them; the last word of the query may be a prefix."""
    pieces = split(query)
    terms: dict[Term, None] = {}
    for piece in pieces[:-1]:
        terms.update(dict.fromkeys(_query_terms(piece, last=False)))
    if pieces:
        terms.update(dict.fromkeys(_query_terms(pieces[-1], last=True)))
    return list(terms)


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


def _index_words(piece: Piece) -> list[str]:
    if not piece.unspaced:
        return [piece.text[:MAX_LETTERS]]
    # The last letter is indexed alone too, so that every letter begins an indexed word and can be searched for.
    text = piece.text
    return [text[at : at + 2] for at in range(len(text))]


def _query_terms(piece: Piece, *, last: bool) -> list[Term]:
    if not piece.unspaced:
        return [Term(piece.text[:MAX_LETTERS], prefix=last and len(piece.text) >= MIN_PREFIX)]
    text = piece.text
    if len(text) == 1:
        return [Term(text, prefix=True)]
    return [Term(text[at : at + 2]) for at in range(len(text) - 1)]


def _normalize_ascii(text: str) -> str:
    return text.lower().translate(_APOSTROPHES)


def _normalize(text: str) -> str:
    """Return the text normalized: without case, width, accents and apostrophes."""
    spread = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES)).casefold()
    if spread.isascii():
        return spread
    accents = dict.fromkeys(ord(letter) for letter in set(spread) if _is_accent(letter))
    bare = spread.translate(accents) if accents else spread
    return unicodedata.normalize("NFKC", bare).casefold().translate(_EQUIVALENTS)


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
