"""What people find an order by: the customer's phone number, e-mail address or name, the store's number, our id's end.

Those of the customer are kept as keyed hashes alone, which are deleted when the customer is erased; without the key a
phone number or a name could be guessed from its hash. A phone number is hashed as E.164, read in the country of the
order's store; a name word by word.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
)

from mercato.features.orders.tables import order_search, orders
from mercato.features.partners.vault import Vault
from mercato.features.stores.tables import stores
from mercato.platform import jobs
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.statements import prepared, prepared_update
from mercato.platform.db.types import Id
from mercato.platform.gazetteer import country_of
from mercato.platform.jobs import Done, Handler, Handlers, Job, JobOutcome, Settled
from mercato_catalog.words import MAX_LETTERS, added_words, split
from mercato_contract.placements import Customer
from mercato_contract.signing import hmac_sha256
from mercato_contract.stores import Address
from mercato_contract.wire import Wire, redacted

PURPOSE: Final = "mercato customer search"
"""The purpose of the derived keys for the hashes of phone numbers and e-mail addresses."""

MAX_PHONE: Final = 64
MAX_NUMBER: Final = 255
"""Characters of a text that can be a phone number, and of one that can be an order's number."""

MIN_DIGITS: Final = 6
"""Digits of a text that can be a phone number."""

MAX_WORDS: Final = 8
"""Words of a name that are kept, and that are searched for."""

MAX_NAMED: Final = 10_000
"""The newest orders with the rarest word of a name, among which a search looks for those with all of its words."""

_SEPARATORS: Final = re.compile(r"[^\w+#;=]|_")
_PHONE: Final = re.compile(
    # Before the number a word such as `tel`, after it an extension or a remark.
    r"(?:[^\W\d]{1,10} +)?(?P<number>\+? *\d[\d +]*)(?:[ ;]*(?:#|[^\W\d]+)[ =]*(?:\d{1,7}|[^\W\d ]*))?"
)
_TAIL: Final = re.compile(r"[0-9a-f]{8}")
_KEY_BYTES: Final = 8
_NAME: Final = "name"


class SearchKind(StrEnum):
    """What an entry of the index is a hash of. `TAIL` is the last eight digits of the order's id, as lists show it."""

    PHONE = "phone"
    EMAIL = "email"
    NUMBER = "number"
    TAIL = "tail"


NAMES: Final = tuple(f"name{number}" for number in range(1, MAX_WORDS + 1))
"""The kinds of the entries of a customer's name: one for each word, in any order. Every customer has the first."""

CONTACTS: Final = (SearchKind.PHONE, SearchKind.EMAIL, *NAMES)
"""The entries that are erased with the customer."""


def _insert_of(*kinds: str) -> Any:
    """Return the prepared insert of an order's entries of these kinds, one row each."""
    return prepared(
        insert(order_search).values(
            [
                {
                    "order_id": bindparam("order_id", type_=Id),
                    "kind": literal_column(f"'{kind}'"),
                    "key": bindparam(str(kind), type_=BigInteger),
                }
                for kind in kinds
            ]
        )
    )


_INSERT_ORDER: Final = tuple(
    _insert_of(SearchKind.TAIL, *CONTACTS[:contacts]) for contacts in range(len(CONTACTS) + 1)
)
"""For each number of entries of a customer: one statement, however many rows."""
_INSERT_NUMBER: Final = _insert_of(SearchKind.NUMBER)
_REPLACE_NUMBER: Final = prepared_update(
    order_search,
    "key",
    where=[
        order_search.c.order_id == bindparam("of_order", type_=Id),
        order_search.c.kind == literal_column(f"'{SearchKind.NUMBER}'"),
    ],
)


@redacted("secrets")
class ContactKeys(Struct, frozen=True):
    """Hashes what tells a customer: with the first secret to store it, with any to find it."""

    secrets: Sequence[bytes]

    def entries_of(self, customer: Customer, country: str | None) -> dict[str, int]:
        """Return the entries of an order's customer, whose store is in the country (ISO 3166, if known).

        Their kinds are the first ones of CONTACTS.
        """
        entries: dict[str, int] = {
            SearchKind.PHONE: self._hash(SearchKind.PHONE, normal_phone(customer.phone, country)),
            SearchKind.EMAIL: self._hash(SearchKind.EMAIL, normal_email(customer.email)),
        }
        words = name_words(customer.first_name, customer.last_name)
        for kind, word in zip(NAMES, words, strict=False):
            entries[kind] = self._hash(_NAME, word)
        return entries

    def candidates(self, text: str, countries: Iterable[str]) -> Iterator[tuple[SearchKind, int]]:
        """Yield the entries that an e-mail address or phone number may have, written as in one of the countries."""
        wanted = []
        if "@" in text:
            wanted.append((SearchKind.EMAIL, normal_email(text)))
        elif may_be_phone(text):
            found = dict.fromkeys(normal_phone(text, country) for country in (*countries, None))
            wanted += [(SearchKind.PHONE, normal_number) for normal_number in found]
        for kind, normal in wanted:
            for number in range(len(self.secrets)):
                yield kind, self._hash(kind, normal, number)

    def name_candidates(self, text: str) -> list[list[int]]:
        """Return for each secret the entries that an order has whose customer's name has all words of the text."""
        words = list(dict.fromkeys(piece.text[:MAX_LETTERS] for piece in split(text)))[:MAX_WORDS]
        if "@" in text or all(word.isdecimal() for word in words):
            return []
        return [[self._hash(_NAME, word, number) for word in words] for number in range(len(self.secrets))]

    def _hash(self, kind: str, normal: str, number: int = 0) -> int:
        text = f"{kind}\0{normal}".encode(errors="replace")
        return int.from_bytes(hmac_sha256(self.secrets[number], text)[:_KEY_BYTES], signed=True)


def contact_keys_of(vault: Vault) -> ContactKeys:
    """Return the keys of the vault."""
    return ContactKeys(vault.derive(PURPOSE))


def name_words(first_name: str, last_name: str) -> list[str]:
    """Return the words that a customer is found by, at most MAX_WORDS, at least one, which may be empty.

    A name that is written with hyphens or apostrophes (`Anne-Marie O'Brien`) is found by its parts and as one word, and
    one of a script without spaces also with both names together, in either order.
    """
    first, last = split(first_name), split(last_name)
    pieces = first + last
    words = dict.fromkeys([piece.text[:MAX_LETTERS] for piece in pieces])
    unspaced = [piece.unspaced for piece in pieces]
    if not any(unspaced):
        parts = added_words(f"{first_name}\n{last_name}")
        words |= dict.fromkeys([word[:MAX_LETTERS] for word in parts])
    elif all(unspaced):
        ends = ["".join(piece.text for piece in end) for end in (first, last)]
        words |= dict.fromkeys(f"{one}{other}"[:MAX_LETTERS] for one, other in (ends[::-1], ends))
    return list(words)[:MAX_WORDS] or [""]


def may_be_phone(text: str) -> bool:
    """Return whether the text can be a phone number."""
    if len(text) > MAX_PHONE:
        return False
    found = _PHONE.fullmatch(_plain_phone(text))
    return found is not None and sum(letter.isdigit() for letter in found["number"]) >= MIN_DIGITS


def normal_email(text: str) -> str:
    """Return what e-mail addresses that reach the same mailbox nearly always have in common."""
    if not text.isascii():
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", text).strip().casefold()


def normal_phone(text: str, country: str | None) -> str:
    """Return the number as E.164, read as it is dialled in the country; its digits alone if it can't be one.

    Its extension is left out, and `00` is what `+` is where it has no other meaning.
    """
    plain = _plain_phone(text)
    found = _PHONE.fullmatch(plain)
    number = plain if found is None else found["number"]
    e164 = _find_e164(number, country)
    if e164 is not None:
        return e164
    digits = "".join(letter for letter in number if letter.isdigit())
    e164 = _find_e164(f"+{digits[2:]}", None) if digits.startswith("00") else None
    return digits if e164 is None else e164


def _plain_phone(text: str) -> str:
    """Return the text with ASCII digits, and with a space for whatever may stand between them."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(str(unicodedata.digit(letter)) if letter.isdigit() else letter for letter in text)
    return _SEPARATORS.sub(" ", text).strip()


def _find_e164(text: str, country: str | None) -> str | None:
    # Its import takes longer than a request may: `load` does it at the start.
    import phonenumbers  # naming what is needed of it would take longer

    try:
        number = phonenumbers.parse(text, country)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def find_country_code(text: str) -> int | None:
    """Return the country code of a number that is written with one."""
    from phonenumbers import NumberParseException, parse

    try:
        code: int | None = parse(text, None).country_code
    except NumberParseException:
        return None
    return code


def load() -> None:
    """Import the library of phone numbers and read the countries."""
    normal_phone("+12025550100", country_of(None, "Etc/UTC"))


def number_key(text: str) -> int:
    """Return the entry of a store's number of an order, in any letter case and with or without `#` before it."""
    normal = unicodedata.normalize("NFKC", text).strip().removeprefix("#").strip().casefold()
    digest = blake2b(normal.encode(errors="replace"), digest_size=_KEY_BYTES).digest()
    return int.from_bytes(digest, signed=True)


def tail_key(order_id: UUID) -> int:
    """Return the entry of the last eight digits of an order's id."""
    return order_id.int & 0xFFFFFFFF


# --- writing --------------------------------------------------------------------------------------


def add_order(
    tx: Write, keys: ContactKeys, order_id: UUID, customer: Customer | None, *, country: str | None
) -> None:
    """Add the entries of an order; those of its customer, unless that was erased."""
    contacts = {} if customer is None else keys.entries_of(customer, country)
    entries = {"order_id": order_id, SearchKind.TAIL: tail_key(order_id)} | contacts
    tx.defer(_INSERT_ORDER[len(contacts)], entries)


def add_number(tx: Write, order_id: UUID, number: str) -> None:
    """Add the store's number of an order, once it has one."""
    tx.defer(_INSERT_NUMBER, {"order_id": order_id, SearchKind.NUMBER: number_key(number)})


def replace_number(tx: Write, order_id: UUID, number: str) -> None:
    """Replace the store's number of an order: it is found by the new one alone."""
    tx.defer(_REPLACE_NUMBER, {"of_order": order_id, "key": number_key(number)})


async def forget_customers(tx: Write, order_ids: Sequence[UUID]) -> None:
    """Delete the hashes of the orders' customers."""
    c = order_search.c
    await tx.execute(delete(order_search).where(c.order_id.in_(order_ids), c.kind.in_(CONTACTS)))


# --- finding --------------------------------------------------------------------------------------


async def find_orders(
    tx: Read, wanted: Iterable[tuple[SearchKind, int]], *, visible: Sequence[ColumnElement[bool]], limit: int
) -> list[UUID]:
    """Return the newest orders that have one of the entries, of those that fulfil the conditions."""
    c, found = order_search.c, set[UUID]()
    # One by one: only so the index has the newest first.
    for kind, key in dict.fromkeys(wanted):
        query = select(c.order_id).where(c.key == key, c.kind == kind.value)
        if visible:
            query = query.join(orders, orders.c.id == c.order_id).where(*visible)
        rows = await tx.all(query.order_by(c.order_id.desc()).limit(limit))
        found.update(row.order_id for row in rows)
    return sorted(found, reverse=True)[:limit]


async def find_orders_named(
    tx: Read, wanted: Iterable[Sequence[int]], *, visible: Sequence[ColumnElement[bool]], limit: int
) -> list[UUID]:
    """Return the newest orders that have all entries of one of the names, of those that fulfil the conditions.

    Common words have many orders: of the rarest word's, the newest MAX_NAMED are looked at.
    """
    c, found = order_search.c, set[UUID]()
    for keys in wanted:
        first, *others = await _rarest_first(tx, keys) if len(keys) > 1 else keys
        newest = (
            select(c.order_id)
            .where(c.key == first, c.kind.in_(NAMES))
            .order_by(c.order_id.desc())
            .limit(MAX_NAMED)
            .subquery()
        )
        query = select(newest.c.order_id).join(orders, orders.c.id == newest.c.order_id)
        # A server of the previous release erases a customer without these entries.
        query = query.where(orders.c.customer.is_not(None), *visible)
        for key in others:
            other = order_search.alias().c
            query = query.where(
                exists().where(other.order_id == newest.c.order_id, other.key == key, other.kind.in_(NAMES))
            )
        rows = await tx.all(query.order_by(newest.c.order_id.desc()).limit(limit))
        found.update(row.order_id for row in rows)
    return sorted(found, reverse=True)[:limit]


async def _rarest_first(tx: Read, keys: Sequence[int]) -> list[int]:
    counts: dict[int, int] = {}
    for key in keys:
        some = select(order_search.c.order_id).where(order_search.c.key == key).limit(MAX_NAMED).subquery()
        counts[key] = await tx.scalar(select(func.count()).select_from(some))
    return sorted(counts, key=counts.__getitem__)


async def list_orders_having(
    tx: Read, wanted: Iterable[tuple[SearchKind, int]], *, after: UUID | None, limit: int
) -> list[UUID]:
    """Return the first orders that have one of the entries, by their ids."""
    c, found = order_search.c, set[UUID]()
    for kind, key in dict.fromkeys(wanted):
        query = select(c.order_id).where(c.key == key, c.kind == kind.value)
        if after is not None:
            query = query.where(c.order_id > after)
        found.update(row.order_id for row in await tx.all(query.order_by(c.order_id).limit(limit)))
    return sorted(found)[:limit]


def plain_candidates(text: str) -> Iterator[tuple[SearchKind, int]]:
    """Yield the entries that the text may have as an order's number, or as the end of its id."""
    text = text.strip()
    if text and len(text) <= MAX_NUMBER:
        yield SearchKind.NUMBER, number_key(text)
    if _TAIL.fullmatch(text.lower()):
        yield SearchKind.TAIL, int(text, 16)


# --- orders without entries, or with those of an older key ----------------------------------------

REINDEX: Final = "order.index"

_EARLIER: Final = "order.reindex"
"""The job of the previous release, whose servers would write no names. The next release drops it."""

BATCH: Final = 100
"""Orders of one transaction, which locks their rows."""

BATCHES: Final = 200
"""Transactions of one job; the next job continues."""

_address: Final = msgspec.json.Decoder(Address)
_customer: Final = msgspec.json.Decoder(Customer)


class OrderReindexJob(Wire):
    """The order before which to go on, towards older ones; None to begin with the newest."""

    before: UUID | None = None


async def enqueue_reindex(tx: Write, *, before: UUID | None = None) -> None:
    """Enqueue the job, unless one waits or runs."""
    await jobs.enqueue(tx, REINDEX, OrderReindexJob(before=before), ordering_key=_EARLIER, dedup=REINDEX)


async def reindex_if_missing(db: Database) -> None:
    """Enqueue the job if the oldest order, or the oldest that has a customer, lacks an entry.

    The job goes towards it, so it hasn't ended yet.
    """
    with_customer = select(orders.c.id).where(orders.c.client_context.is_not(None))
    oldest = select(orders.c.id).order_by(orders.c.id).limit(1)
    oldest_customer = with_customer.order_by(orders.c.created_at, orders.c.id).limit(1)
    async with db.read() as tx:
        missing = await _lacks(tx, oldest, SearchKind.TAIL) or await _lacks(
            tx, oldest_customer, NAMES[0], orders.c.customer.is_not(None)
        )
    if missing:
        async with db.write() as tx:
            await enqueue_reindex(tx)


async def _lacks(tx: Read, oldest: Select[Any], kind: str, *conditions: ColumnElement[bool]) -> bool:
    """Return whether the order lacks an entry of the kind, if it fulfils the conditions."""
    entry = exists().where(order_search.c.order_id == orders.c.id, order_search.c.kind == kind)
    found = select(orders.c.id).where(orders.c.id == oldest.scalar_subquery(), ~entry, *conditions)
    return await tx.scalar(found) is not None


@redacted("keys")
class OrderReindex(Struct, frozen=True):
    """Writes the entries of all orders anew, newest first: what a killed job has done stays done."""

    db: Database
    keys: ContactKeys

    def handlers(self) -> Handlers:
        """Return the handler of the job, which runs one at a time."""
        handler = Handler(fn=self.run, payload=OrderReindexJob, timeout=timedelta(minutes=10), concurrency=1)
        earlier = Handler(fn=self.begin, payload=OrderReindexJob, timeout=timedelta(minutes=1), concurrency=1)
        return {REINDEX: handler, _EARLIER: earlier}

    async def begin(self, job: Job[OrderReindexJob]) -> JobOutcome:
        """Begin anew for a job of the previous release: its servers may have done a part of it."""
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            await enqueue_reindex(tx)
        return Done()

    async def run(self, job: Job[OrderReindexJob]) -> JobOutcome:
        """Write entries in small transactions, and enqueue the next job if there are more orders."""
        before = job.payload.before
        for _ in range(BATCHES):
            async with self.db.write() as tx:
                await jobs.fence(tx, job)
                ids = await self._write(tx, before)
            if len(ids) < BATCH:
                return Done()
            before = ids[-1]
        async with self.db.write() as tx:
            await jobs.finish(tx, job)
            await enqueue_reindex(tx, before=before)
        return Settled()

    async def _write(self, tx: Write, before: UUID | None) -> list[UUID]:
        """Write the entries of one batch; return its orders, newest first."""
        newest = select(orders.c.id, orders.c.customer, orders.c.partner_order_id, orders.c.store_id)
        if before is not None:
            newest = newest.where(orders.c.id < before)
        # Locked: a customer who is erased meanwhile is erased after this.
        rows = await tx.all(newest.order_by(orders.c.id.desc()).limit(BATCH).with_for_update())
        countries = await find_countries(tx, {row.store_id for row in rows})
        ids = [row.id for row in rows]
        await tx.execute(delete(order_search).where(order_search.c.order_id.in_(ids)))
        for row in rows:
            customer = None if row.customer is None else _customer.decode(row.customer)
            add_order(tx, self.keys, row.id, customer, country=countries.get(row.store_id))
            if row.partner_order_id is not None:
                add_number(tx, row.id, row.partner_order_id)
        return ids


async def find_countries(tx: Read, store_ids: Iterable[UUID]) -> dict[UUID, str | None]:
    """Return the countries of the stores that exist: their customers' phone numbers are written as there."""
    c = stores.c
    rows = await tx.all(select(c.id, c.address, c.timezone).where(c.id.in_(list(store_ids))))
    return {row.id: country_of(_address.decode(row.address).country or None, row.timezone) for row in rows}


MAX_STORES: Final = 500
"""The newest stores whose countries a search takes a phone number without its country code for."""


async def list_countries(tx: Read, *conditions: ColumnElement[bool]) -> list[str]:
    """Return the countries of the newest stores that fulfil the conditions."""
    c = stores.c
    newest = select(c.address, c.timezone).where(*conditions).order_by(c.id.desc()).limit(MAX_STORES)
    rows = await tx.all(newest)
    found = {country_of(_address.decode(row.address).country or None, row.timezone) for row in rows}
    return sorted(code for code in found if code is not None)
