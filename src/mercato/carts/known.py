"""Lines of carts that have come before, byte for byte.

A storefront sends its cart with every change, and once more to validate and to place it: most lines are as they were.
What such a line says, what it costs in a CatalogSet and how it is answered is looked up by its bytes. What may change
without it, sold-out items and how many of an item the whole cart has, is looked at each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar
from weakref import ref

import msgspec
from msgspec import Meta, Raw, Struct, field
from msgspec.structs import fields, force_setattr

from mercato.carts.model import MOST_DEPTH, MOST_LINES, Cart, LineItem
from mercato.catalog.model import CompiledCatalog, Key
from mercato.settings import MiB

T = TypeVar("T", bound=Struct)

MOST_BYTES: Final = 2 * MiB
"""Bytes of all lines that are remembered, as they were sent. What is known of them takes four times as much, for lines
that say little eleven times."""

LONGEST: Final = 4096
"""Bytes of a line that is remembered."""


class Reading(Struct):
    """A line in a CatalogSet that has nothing against it: what one unit costs, and its items; the ids of all of it.

    `written` are its forms in answers, by their kind.
    """

    catalog: "ref[CompiledCatalog]"
    unit: int
    items: tuple[Key, ...]
    ids: tuple[int, ...]
    written: dict[type[Struct], Struct] = field(default_factory=dict)


class Known(Struct):
    """A line that is remembered, and how many lines it is (`count_lines`).

    `choice` is what `orders.tokens` spells it as.
    """

    line: LineItem
    text: bytes
    size: int
    reading: Reading | None = None
    choice: bytes | None = None


class Lines:
    """The lines that are remembered; the one that was sent least recently is forgotten first."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._by_text: OrderedDict[bytes, Known] = OrderedDict()
        # What is made of a line, with another quantity perhaps, is another object.
        self._by_identity: dict[int, Known] = {}

    def read(self, raw: Raw) -> LineItem:
        """Return the line that the bytes say. Raises what msgspec raises."""
        text = bytes(raw)
        known = self._by_text.get(text)
        if known is not None:
            self._by_text.move_to_end(text)
            return known.line
        line = _read_line(text)
        if len(text) <= LONGEST:
            self._keep(Known(line, text, count_lines([line])))
        return line

    def find(self, line: LineItem) -> Known | None:
        """Return what is known of this very line."""
        known = self._by_identity.get(id(line))
        return known if known is not None and known.line is line else None

    def _keep(self, known: Known) -> None:
        self._by_text[known.text] = self._by_identity[id(known.line)] = known
        self._bytes += len(known.text)
        while self._bytes > self._most:
            text, oldest = self._by_text.popitem(last=False)
            del self._by_identity[id(oldest.line)]
            self._bytes -= len(text)


LINES: Final = Lines()
"""The lines of this process, which are read by its event loop alone."""


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Return what decodes requests of a kind that has a `cart`; the lines of it are read by `LINES`."""
    cart = _like(Cart, line_items=Annotated[list[Raw], Meta(max_length=MOST_LINES)])
    needs_one = next(member.required for member in fields(kind) if member.name == "cart")
    read = msgspec.json.Decoder(_like(kind, cart=cart if needs_one else cart | None)).decode
    plain = msgspec.json.Decoder(kind).decode

    def decode(body: bytes) -> T:
        try:
            request = read(body)
            sent: Any = request.cart  # type: ignore[attr-defined]  # it has one, or None
            if sent is not None:
                force_setattr(sent, "line_items", list(map(LINES.read, sent.line_items)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # Of several faults the first counts, and lines have been read after all that comes behind them.
            return plain(body)
        return request

    return decode


def count_lines(lines: Sequence[LineItem]) -> int:
    """Return how many lines there are, modifiers included; more than may be when they stand too deep."""
    count = 0
    for _ in range(MOST_DEPTH + 1):
        count += len(lines)
        if not lines or count > MOST_LINES:
            return count
        lines = [below for line in lines for group in line.modifier_groups for below in group.line_items]
    return MOST_LINES + 1 if lines else count


def _like(kind: type[T], **changed: Any) -> type[T]:
    """Return a kind that is this one, its members in the same order, but for the types of some."""
    members = fields(kind)
    body: dict[str, Any] = {member.name: member.default for member in members if not member.required}
    body["__annotations__"] = {member.name: changed.get(member.name, member.type) for member in members}
    meta: Any = type(kind)
    made: type[T] = meta(kind.__name__, (kind,), body)
    return made


_read_line: Final = msgspec.json.Decoder(LineItem).decode
