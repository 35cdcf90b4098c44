"""Two hundred hostile documents, the same in every run: `documents()` makes them.

Each has a name that describes it. `test_hostile_documents` builds them.
"""

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.catalog.documents import DRINKS, EXTRAS, HOT, MILK, TEA, cafe

DEPTHS = (64, 512, 1_000, 1_024, 10_000, 200_000)
LONG = 1_000_000

PRICES = (
    '"NaN"', '"Infinity"', '"-Infinity"', '"1e999999999"', '"1E-999999999"', '"1_000"', '"1,5"', '" 1"', '"1 "', '"+1"',
    '"0x10"', '"\\u0661"', '"1.2.3"', '"--1"', '"-"', '"."', '".5"', '"5."', '""', '"9223372036854775807"', '"-0"',
    '"92233720368547758.08"', '"0.001"', '"1\\u0000"', "1e400", "-1e400", "1e-400", "1E5", "0.1", "-0.0",
    "1e2147483648", "123456789012345678901234567890", "0.10000000000000000000000000000000000000000001",
    "true", "null", "[]", "{}",
)  # fmt: skip

TEXTS = {
    "latin-1": b"\xe9",
    "a continuation byte alone": b"\x80",
    "a sequence cut short": b"\xf0\x9f",
    "an overlong slash": b"\xc0\xaf",
    "an overlong NUL": b"\xc0\x80",
    "a surrogate in UTF-8": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "no byte of UTF-8": b"\xff\xfe",
    "a raw NUL": b"\x00",
    "a raw line feed": b"\n",
    "an escaped NUL": b"\\u0000",
    "a lone surrogate": b"\\ud800",
    "surrogates the wrong way": b"\\udc00\\ud800",
    "an escape cut short": b"\\u12",
    "an invalid escape": b"\\x41",
    "a pair in two spellings": b"\\ud83d\xed\xb8\x80",
    "right to left": "\u202e\u2066".encode(),
    "combining marks": b"e" + "\u0301".encode() * 50_000,
    "zero-width joiners": "\u200d".encode() * 50_000,
    "line separators": "\u2028\u2029\x85".encode(),
    "a million letters": b"x" * LONG,
    "markup": b"<script>alert(1)</script>",
    "a formula": b"=cmd|' /C calc'!A0",
    "a format": b"%s%n{0.__class__}${jndi:ldap://x}",
}

KEYS = ("", "__proto__", "constructor", "a/b~c", "\u202e", "\u0000", "items", "x" * LONG)

WRONG: tuple[Any, ...] = (None, True, -1, 1.5, "", [], {}, [[]], [None], {"a": {}})

MEMBERS = (
    ("items", TEA, "modifierGroupIds"), ("items", TEA, "maximumQuantity"), ("items", TEA, "isAvailable"),
    ("sections", DRINKS, "sectionIds"), ("modifierGroups", EXTRAS, "priceOverrides"),
    ("modifierGroups", EXTRAS, "maximumAllowed"),
)  # fmt: skip


def documents() -> dict[str, bytes]:
    """Return every document by its name."""
    made: dict[str, bytes] = {}
    for family in (nested, prices, texts, keys, members, graphs, crowds, cut, garbage):
        for name, document in family():
            assert name not in made, name
            made[name] = document if isinstance(document, bytes) else json.dumps(document).encode()
    return made


def nested() -> Iterator[tuple[str, bytes]]:
    for depth in DEPTHS:
        yield f"{depth} lists", b"[" * depth + b"]" * depth
        yield f"{depth} lists, not closed", b'{"items":' + b"[" * depth
        yield (
            f"{depth} objects in an item",
            b'{"items":{"a":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}}",
        )
        yield f"{depth} lists in an unknown member", b'{"items":{},"x":' + b"[" * depth + b"]" * depth + b"}"


def prices() -> Iterator[tuple[str, bytes]]:
    for price in PRICES:
        yield f"a price {price}", with_raw("items", TEA, "basePrice", price)
    yield "a price of a million digits", with_raw("items", TEA, "basePrice", "9" * LONG)
    yield "a price of a million digits, as text", with_raw("items", TEA, "basePrice", f'"{"9" * LONG}"')
    yield (
        "a price of a million zeros behind the point",
        with_raw("items", TEA, "basePrice", f'"1.{"0" * LONG}"'),
    )
    yield (
        "an override beyond all integers",
        with_raw("modifierGroups", EXTRAS, "priceOverrides", f'{{"{MILK}":1e308}}'),
    )


def texts() -> Iterator[tuple[str, bytes]]:
    for name, text in TEXTS.items():
        yield f"a name of {name}", with_raw("items", TEA, "name", '"RAW"').replace(b"RAW", text)
    for coding in ("utf-16", "utf-32", "utf-8-sig", "utf-16-be"):
        yield f"all in {coding}", json.dumps(cafe()).encode(coding)


def keys() -> Iterator[tuple[str, Any]]:
    for key in KEYS:
        yield f"an item under {key[:20]!r}", {"items": {key: {"name": "x", "basePrice": "1"}}}
    item = b'"a":{"basePrice":"1"}'
    yield "the same item 20,000 times", b'{"items":{' + b",".join([item] * 20_000) + b"}}"
    yield "the same member 20,000 times", b'{"items":{"a":{' + b",".join([b'"name":"x"'] * 20_000) + b"}}}"
    yield "items twice", b'{"items":{},"items":{' + item + b"}}"
    yield "items twice, in two spellings", b'{"items":{},"\\u0069tems":{' + item + b"}}"
    yield (
        "ids that differ in their case",
        {"items": {TEA.upper(): {"basePrice": "1"}, TEA.lower(): {"basePrice": "2"}}},
    )
    alike = {f"k{n}": n * (2**61 - 1) for n in range(5_000)}
    yield "prices that hash alike", {"items": {key: {"basePrice": price} for key, price in alike.items()}}


def members() -> Iterator[tuple[str, bytes]]:
    for table, entity, member in MEMBERS:
        for wrong in WRONG:
            yield (
                f"{table} with {member} {json.dumps(wrong)}",
                with_raw(table, entity, member, json.dumps(wrong)),
            )


def graphs() -> Iterator[tuple[str, Any]]:
    def sections(refers: dict[str, list[str]]) -> dict[str, Any]:
        return {
            "items": {},
            "sections": {name: {"name": "x", "sectionIds": to} for name, to in refers.items()},
        }

    yield "a section in itself", sections({"a": ["a"]})
    yield "two sections in each other", sections({"a": ["b"], "b": ["a"]})
    yield "a circle of 20,000 sections", sections({f"s{n}": [f"s{(n + 1) % 20_000}"] for n in range(20_000)})
    yield (
        "a chain of 20,000 sections",
        sections({f"s{n}": [f"s{n + 1}"] for n in range(20_000)} | {"s20000": []}),
    )
    layers = {f"l{n}-{side}": [f"l{n + 1}-0", f"l{n + 1}-1"] for n in range(60) for side in (0, 1)}
    yield "2 to the 60 ways to a section", sections(layers | {"l60-0": [], "l60-1": []})
    every = {f"s{n}": [f"s{m}" for m in range(n)] for n in range(400)}
    yield "every section in every later one", sections(every)
    yield "a section 50,000 times in another", sections({"a": ["b"] * 50_000, "b": []})
    groups = {f"g{n}": {"name": "x", "itemIds": [f"i{n + 1}", f"i{n + 1}"]} for n in range(3_000)}
    items = {f"i{n}": {"name": "x", "basePrice": "1", "modifierGroupIds": [f"g{n}"]} for n in range(3_000)}
    yield "modifiers 3,000 deep", {"items": items | {"i3000": {"basePrice": "1"}}, "modifierGroups": groups}
    yield (
        "modifiers in a circle",
        {
            "items": {"i": {"basePrice": "1", "modifierGroupIds": ["g"]}},
            "modifierGroups": {"g": {"itemIds": ["i"]}},
        },
    )
    wide = {f"g{n}": {"name": "x", "itemIds": [f"m{m}" for m in range(100)]} for n in range(100)}
    choices = {f"m{m}": {"name": "x", "basePrice": "1"} for m in range(100)}
    yield (
        "a hundred groups of a hundred choices in a hundred items",
        {
            "items": choices
            | {f"i{n}": {"basePrice": "1", "modifierGroupIds": list(wide)} for n in range(100)},
            "modifierGroups": wide,
        },
    )
    yield (
        "50,000 references that lead nowhere",
        {"items": {}, "sections": {"s": {"itemIds": [f"x{n}" for n in range(50_000)]}}},
    )


def crowds() -> Iterator[tuple[str, Any]]:
    yield "30,000 items without a name or price", {"items": {f"i{n}": {} for n in range(30_000)}}
    yield "30,000 sections as a list", {"items": {}, "sections": [{} for _ in range(30_000)]}
    yield "30,000 items that aren't objects", {"items": {f"i{n}": n for n in range(30_000)}}
    window = {"dayOfWeek": "Monday", "start": "00:00:00", "end": "00:00:00"}
    yield "20,000 windows of a catalog", {"items": {}, "catalogs": {"c": {"availability": [window] * 20_000}}}
    odd = [window | {"start": f"{n}:99:{n}", "dayOfWeek": n} for n in range(5_000)]
    yield "5,000 invalid windows", {"items": {}, "catalogs": {"c": {"availability": odd}}}
    yield "50,000 tags", {"items": {"a": {"basePrice": "1", "tags": [f"t{n}" for n in range(50_000)]}}}
    yield "100,000 unknown members", {"items": {}} | {f"x{n}": n for n in range(100_000)}
    words = " ".join(f"w{n}" for n in range(50_000))
    yield (
        "an item of 50,000 words",
        {"items": {"a": {"name": words, "basePrice": "1"}}, "sections": {"s": {"itemIds": ["a"]}}},
    )


def cut() -> Iterator[tuple[str, bytes]]:
    whole = json.dumps(cafe()).encode()
    for tenth in range(10):
        yield f"cut off after {tenth} tenths", whole[: len(whole) * tenth // 10]


def garbage() -> Iterator[tuple[str, bytes]]:
    rng = random.Random(7)
    whole = json.dumps(cafe()).encode()
    for number in range(10):
        yield f"bytes by chance {number}", rng.randbytes(1_000)
        spoilt = bytearray(whole)
        for _ in range(5):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        yield f"five bytes changed {number}", bytes(spoilt)
    yield "a page", b"<!doctype html><title>Not found</title>"
    yield "XML with entities", b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
    yield "YAML", b"items: &a [*a, *a]"
    yield "compressed still", gzip.compress(whole)
    yield "white space", b" " * LONG
    yield "white space around", b"\n" * LONG + whole + b"\t" * LONG
    yield "two documents", whole + whole
    yield "a comma behind", whole[:-1] + b",}"
    yield "a comment", b"/* */" + whole
    yield "single quotes", whole.replace(b'"', b"'")
    yield "a text", b'"items"'
    yield "a number of a million digits", b"1" * LONG


def with_raw(table: str, entity: str, member: str, raw: str) -> bytes:
    """Return the café with a member as raw JSON."""
    document = cafe()
    document[table][entity][member] = "RAW-VALUE"
    assert HOT in document["sections"]
    return json.dumps(document).replace('"RAW-VALUE"', raw).encode()
