"""A person approves or declines what an agent wants to place, on a page whose address is known to them alone.

The address has a secret, of which the database has the hash. Whoever opens it may decide, once: both decisions are
updates that leave the state `pending`, and placing is one with storing the order. If the store's prices have changed,
the order is priced again and the person is asked again.
"""

from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.orders.idempotency import OrderOutcome
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.partners.callers import Callers
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import find_names
from mercato.features.quotes import queries
from mercato.features.quotes.model import QuoteContent, QuoteRow, QuoteState
from mercato.features.quotes.rules import changed_since
from mercato.features.quotes.service import Quotes
from mercato.features.stores.model import StoreRow
from mercato.platform.db.audit import audit
from mercato.platform.errors import NotFound, RequestInProgress
from mercato.platform.problem_details import MakeOrigin
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato_contract.placements import CheckedOrder, OrderCore, ValidateAmounts
from mercato_contract.refusals import Problem
from mercato_contract.wire import uuid_text

MAX_SECRET: Final = 100
"""Characters of a secret that is looked up."""


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request for the page: `trace` is the `traceparent` of what it causes."""

    request_id: str
    trace_id: str
    trace: str
    make_origin: MakeOrigin


class Approval(Struct, frozen=True, kw_only=True):
    """What a person sees who is asked about a quote.

    `content` is the order that can still be placed, and `order` the one that was. `problem` is why it can't be placed
    at the moment. `store` is None if it no longer exists, `caller` if its key is no longer accepted.
    """

    quote: QuoteRow
    partner: str
    store: StoreRow | None = None
    caller: Caller | None = None
    content: QuoteContent | None = None
    order: OrderRow | None = None
    problem: Problem | None = None

    @property
    def total(self) -> str | None:
        """What the order costs that can be placed, as the page's form sends it back."""
        return None if self.content is None else total_of(self.content.order)


class Approvals(Struct, frozen=True, kw_only=True):
    """What the approval page shows and does."""

    quotes: Quotes
    callers: Callers

    async def get(self, secret: str, request: PageRequest) -> Approval:
        """Return the order at its present prices. Raises NotFound."""
        return await self._show(await self._get(secret), request)

    async def decline(self, secret: str, request: PageRequest) -> Approval:
        """Decline the order, unless it was placed or declined before. Raises NotFound."""
        quote = await self._get(secret)
        set_context(_context(quote, "declineQuote", request))
        async with self.quotes.db.write() as tx:
            if await queries.set_declined(tx, quote.id, now=self.quotes.clock()):
                await audit(tx, "quote", quote.id, detail={"state": QuoteState.DECLINED})
        return await self._show(await self._get(secret), request)

    async def place(self, secret: str, request: PageRequest, *, total: str) -> Approval:
        """Place the order at the total that the page has shown; at another one, ask again. Raises NotFound."""

        async def attempt() -> OrderOutcome | None:
            quote = await self._get(secret)
            set_context(_context(quote, "approveQuote", request))
            content = self.quotes.open(quote)
            if quote.state is QuoteState.PLACED:
                order = await self.quotes.find_order(quote.partner_id, quote.id, quote)
                if order is not None and order.answer is StoreAnswer.WAITING:
                    # Whoever pressed first waits for the store.
                    raise RequestInProgress("The order is being placed. Open the page again.", retry_after=1)
                return None
            if content is None or quote.state is not QuoteState.PENDING or total_of(content.order) != total:
                return None
            if quote.is_over(self.quotes.clock()):
                # The token of an order that was priced again would be good for longer.
                return None
            caller = await self.callers.get_by_key(quote.key_id, quote.partner_id)
            return await self.quotes.place_quote(
                caller,
                quote,
                self.quotes.open_payment(quote),
                leaves={QuoteState.PENDING},
                trace=request.trace,
                make_origin=request.make_origin,
            )

        problem: Problem | None = None
        try:
            await self.quotes.until_decided(attempt)
        except Problem as refused:
            problem = refused
        shown = await self._show(await self._get(secret), request)
        # A price that has changed is shown as such.
        return replace(shown, problem=problem) if problem and shown.total == total else shown

    async def _get(self, secret: str) -> QuoteRow:
        quote = None
        if len(secret) <= MAX_SECRET:
            async with self.quotes.db.read() as tx:
                quote = await queries.find_by_approval(tx, self.quotes.secrets.hash_of(secret))
        if quote is None:
            raise NotFound("Nobody asks for an approval at this address. Ask for the whole link again.")
        return quote

    async def _show(self, quote: QuoteRow, request: PageRequest) -> Approval:
        quotes = self.quotes
        async with quotes.db.read() as tx:
            names = await find_names(tx, [quote.partner_id])
        approval = Approval(
            quote=quote,
            partner=names.get(quote.partner_id, ""),
            store=await quotes.menus.cache.find(quote.store_id),
        )
        order = await quotes.find_order(quote.partner_id, quote.id, quote)
        if order is not None:
            return replace(approval, order=order)
        content = quotes.open(quote)
        if content is None or quote.state is not QuoteState.PENDING or quote.is_over(quotes.clock()):
            return approval
        try:
            caller = await self.callers.get_by_key(quote.key_id, quote.partner_id)
        except Problem as problem:
            return replace(approval, problem=problem)
        approval = replace(approval, caller=caller, content=content)
        if await quotes.placements.find_refusal(caller, content.request) is None:
            return approval
        try:
            priced = await self._price_again(caller, quote, content, request)
        except Problem as problem:
            return replace(approval, problem=changed_since(content.request, problem))
        return replace(approval, content=priced)

    async def _price_again(
        self, caller: Caller, quote: QuoteRow, content: QuoteContent, request: PageRequest
    ) -> QuoteContent:
        """Return the order at the store's present prices, and keep it. Raises what quoting does."""
        sent = content.request
        order = OrderCore(
            cart=sent.cart,
            client_context=sent.client_context,
            fulfillment=sent.fulfillment,
            amounts=ValidateAmounts(tip=None if sent.amounts is None else sent.amounts.tip),
            customer=sent.customer,
            note=sent.note,
        )
        first = content.first or content.order
        priced = await self.quotes.price(caller, order, quote_id=quote.id, trace=request.trace, first=first)
        async with self.quotes.db.write() as tx:
            if not await queries.replace_content(tx, quote, self.quotes.seal(quote.id, priced)):
                raise RequestInProgress("The order has just changed. Open the page again.", retry_after=1)
        return priced


def total_of(order: CheckedOrder) -> str:
    """Return the total of an order that can be placed, with its currency."""
    assert order.amounts is not UNSET, "an order without errors has a price"
    return f"{order.amounts.total} {order.amounts.currency}"


def _context(quote: QuoteRow, action: str, request: PageRequest) -> WorkContext:
    """Return the actor: the person with the link, which the key got."""
    return WorkContext(
        action=action,
        console=f"key:{uuid_text(quote.key_id)}",
        partner_id=quote.partner_id,
        subjects={"store_id": quote.store_id},
        request_id=request.request_id,
        trace_id=request.trace_id,
    )
