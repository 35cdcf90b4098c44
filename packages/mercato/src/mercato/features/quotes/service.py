"""Quote an order, and place it: the order of a quote is placed once, however often and by whomever it is requested.

A quote is the order with the token of its validation, whose id is the quote's. What is placed with that token is one
order (`orders.placement`), so an order is found by its quote for ever. The idempotency key is the quote's, too: a
repeat gets the first answer. The transaction that stores the order erases the quote's copy of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.orders import queries as orders
from mercato.features.orders import spending
from mercato.features.orders.errors import (
    OrderAlreadyPlaced,
    OrderClosed,
    OrderTokenInvalid,
    OrderTotalDifferent,
    already_placed,
    problem_of,
    unanswered,
)
from mercato.features.orders.idempotency import (
    KeyedRequest,
    OrderOutcome,
    PlacedOrder,
    RefusedOrder,
    UnansweredOrder,
)
from mercato.features.orders.placement import OnStored, Placements
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.rules import RefusePlan
from mercato.features.orders.store_messages import canonical_payment, payment_fault, payment_of
from mercato.features.orders.validation import TokenExpired, Validations
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import StorageQuota
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.quotes import queries
from mercato.features.quotes.model import (
    LIFETIME,
    OPEN,
    ApprovalRequest,
    FoundQuote,
    NewQuote,
    QuoteContent,
    QuoteDeclined,
    QuoteExpired,
    QuoteNotFound,
    QuotePlacement,
    QuoteRow,
    QuoteState,
)
from mercato.features.quotes.rules import ApprovalSecrets, changed_since, needs_approval, warnings_of
from mercato.features.stores.cache import Menus
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.errors import IdempotencyKeyReused, RequestInProgress
from mercato.platform.problem_details import MakeOrigin, detail_of
from mercato_contract.clock import Clock, MakeId
from mercato_contract.money import MoneyError, to_minor
from mercato_contract.placements import CheckedOrder, OrderCore, PlaceAmounts, PlaceOrderRequest
from mercato_contract.refusals import InvalidRequest, Problem, ValidationFailed
from mercato_contract.wire import as_json

QUOTE_BYTES: Final = 1_000
"""What a quote stores besides its sealed order: its row and indices."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds between two looks at a placement that another request makes."""

_KEY: Final = " quote {}"
"""The idempotency key of a quote. No client's key begins with a space: a header's value is trimmed."""

_content: Final = msgspec.json.Decoder(QuoteContent)

_T = TypeVar("_T")


class Quotes(Struct, frozen=True, kw_only=True):
    """Quotes orders and places them."""

    db: Database
    clock: Clock
    new_id: MakeId
    vault: Vault
    secrets: ApprovalSecrets
    menus: Menus
    validations: Validations
    placements: Placements
    quota: StorageQuota

    # --- quoting ----------------------------------------------------------------------------------

    async def quote(self, caller: Caller, order: OrderCore, *, trace: str) -> NewQuote:
        """Let the store price the order, and keep it for fifteen minutes.

        Raises what Validate order does, and the order's errors as a problem: nothing is kept then. RateLimited if the
        caller may store no more today.
        """
        quote_id, now = self.new_id(), self.clock()
        content = await self.price(caller, order, quote_id=quote_id, trace=trace)
        amounts = content.order.amounts
        assert not isinstance(amounts, msgspec.UnsetType), "an order without errors has a price"
        row = QuoteRow(
            id=quote_id,
            partner_id=caller.partner_id,
            key_id=caller.key_id,
            store_id=content.order.cart.store_id,
            currency=amounts.currency,
            total=to_minor(amounts.total, amounts.currency),
            state=QuoteState.QUOTED,
            content=self.seal(quote_id, content),
            payment=None,
            approval=None,
            created_at=now,
            # A little sooner than its token expires.
            expires_at=now + LIFETIME,
            decided_at=None,
            order_id=None,
        )
        assert row.content is not None
        async with self.db.write() as tx:
            await self.quota.take(tx, caller.partner_id, QUOTE_BYTES + len(row.content), now=now)
            await queries.insert_quote(tx, row)
        store, catalog = await self.menus.get(row.store_id, content.order.cart.catalog_set_id)
        asks = needs_approval(caller, row.total)
        warnings = warnings_of(content.order, store, catalog, now=now, needs_approval=asks)
        return NewQuote(id=quote_id, expires_at=row.expires_at, order=content.order, warnings=warnings)

    async def price(
        self,
        caller: Caller,
        order: OrderCore,
        *,
        quote_id: UUID,
        trace: str,
        first: CheckedOrder | None = None,
    ) -> QuoteContent:
        """Return the content of a quote at the store's present prices. Raises what `quote` does; nothing is written."""
        answer = await self.validations.validate(caller, order, trace=trace, token_id=quote_id)
        if answer.validated_order_token is None:
            raise problem_of(answer.order.errors)
        sent, amounts = order.amounts, answer.order.amounts
        assert not isinstance(amounts, msgspec.UnsetType), "an order without errors has a price"
        request = PlaceOrderRequest(
            cart=order.cart,
            client_context=order.client_context,
            fulfillment=order.fulfillment,
            amounts=PlaceAmounts(
                tip=None if sent is None else sent.tip, currency=amounts.currency, total=amounts.total
            ),
            customer=order.customer,
            note=order.note,
            validated_order_token=answer.validated_order_token,
        )
        return QuoteContent(request=request, order=answer.order, first=first)

    # --- placing ----------------------------------------------------------------------------------

    async def place(
        self,
        caller: Caller,
        quote_id: UUID,
        request: QuotePlacement,
        *,
        trace: str,
        make_origin: MakeOrigin,
    ) -> OrderOutcome | ApprovalRequest:
        """Return the order's outcome, the same for every repeat; or where a person approves it.

        A request that comes while another one is placing the order waits for its outcome, at most as long as a
        placement takes. Raises QuoteNotFound, QuoteExpired, QuoteDeclined, OrderTotalDifferent, InvalidRequest or
        ValidationFailed for faults of the request, and what placing an order raises.
        """
        payment = UNSET if request.payment is None else request.payment
        if (fault := payment_fault(payment)) is not None:
            raise InvalidRequest.at("/payment", fault)

        async def attempt() -> OrderOutcome | ApprovalRequest:
            quote = await self._get(caller, quote_id)
            _check_total(quote, request.total)
            if quote.state in OPEN and not quote.is_over(self.clock()):
                if quote.state is QuoteState.PENDING or needs_approval(caller, quote.total):
                    await self._check_limits(caller, quote)
                    return await self._ask(quote, payment)
                leaves = {QuoteState.QUOTED}
            else:
                leaves = set()
            return await self.place_quote(
                caller, quote, payment, leaves=leaves, trace=trace, make_origin=make_origin
            )

        return await self.until_decided(attempt)

    async def place_quote(
        self,
        caller: Caller,
        quote: QuoteRow,
        payment: msgspec.Raw | msgspec.UnsetType,
        *,
        leaves: Collection[QuoteState],
        trace: str,
        make_origin: MakeOrigin,
    ) -> OrderOutcome:
        """Place the order of a quote that is in one of these states, or return the outcome of an earlier request.

        Raises what `place` does, and RequestInProgress while another request is placing it.
        """
        keyed = self._keyed(caller, quote, payment)
        content = self.open(quote) if quote.state in leaves else None
        try:
            if content is None:
                refused = RefusePlan(self._refusal(quote), quote.id)
                outcome = await self.placements.resume(
                    caller, keyed, refused, trace=trace, make_origin=make_origin
                )
            else:
                outcome = await self.placements.place_keyed(
                    caller,
                    replace(content.request, payment=payment),
                    keyed,
                    trace=trace,
                    make_origin=make_origin,
                    on_stored=self._set_placed(quote, leaves),
                    approved=QuoteState.PENDING in leaves,
                )
        except TokenExpired:
            raise QuoteExpired(quote) from None
        except OrderAlreadyPlaced:
            # The order's key is more than a day old.
            outcome = await self._outcome_of_order(caller, quote, make_origin)
        except IdempotencyKeyReused as reused:
            raise _other_payment(reused) from None
        except (OrderTokenInvalid, ValidationFailed) as refused:
            raise refused if content is None else changed_since(content.request, refused) from None
        return _final(outcome)

    async def until_decided(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat the attempt while another request is placing the same order, for as long as that may take."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self.placements.seconds, FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except RequestInProgress:
                if loop.time() + pause >= end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _keyed(
        self, caller: Caller, quote: QuoteRow, payment: msgspec.Raw | msgspec.UnsetType
    ) -> KeyedRequest:
        """Return what tells repeats apart: the quote and the payment, so that it outlives the quote's content."""
        meaning = quote.id.bytes + canonical_payment(payment)
        return self.placements.keyed(
            caller, _KEY.format(quote.id), sent=lambda: meaning, meaning=meaning, is_final=True
        )

    def _set_placed(self, quote: QuoteRow, leaves: Collection[QuoteState]) -> OnStored:
        async def set_placed(tx: Write, order_id: UUID) -> None:
            now = self.clock()
            if not await queries.set_placed(tx, quote.id, order_id=order_id, leaves=leaves, now=now):
                raise RequestInProgress(
                    "Another request has just decided about the quote. Repeat this one.", retry_after=1
                )

        return set_placed

    def _refusal(self, quote: QuoteRow) -> Problem:
        """Return why a quote isn't placed any more."""
        if quote.order_id is not None:
            return already_placed(quote.order_id)
        return QuoteDeclined(quote) if quote.state is QuoteState.DECLINED else QuoteExpired(quote)

    async def _outcome_of_order(
        self, caller: Caller, quote: QuoteRow, make_origin: MakeOrigin
    ) -> OrderOutcome:
        """Return the outcome of the quote's order as it is now."""
        order = await self.find_order(caller.partner_id, quote.id, quote)
        assert order is not None, "orders are never deleted"
        match order.answer:
            # An order about which no store is called was placed, whatever a person decided since.
            case answer if order.is_pulled or answer in {StoreAnswer.ACCEPTED, StoreAnswer.PENDING}:
                return PlacedOrder(order.id, order.storefront_document, replayed=True)
            case StoreAnswer.REFUSED:
                problem = problem_of(order.errors)
            case StoreAnswer.GIVEN_UP:
                problem = OrderClosed("The order was cancelled before its store answered. Quote it again.")
            case StoreAnswer.WAITING:
                return UnansweredOrder(unanswered(order.id))
        origin = make_origin()
        detail = replace(detail_of(problem, origin, at=self.clock()), order_id=order.id)
        return RefusedOrder(detail, origin.format, replayed=True)

    # --- asking a person --------------------------------------------------------------------------

    async def _check_limits(self, caller: Caller, quote: QuoteRow) -> None:
        """Raise SpendLimitExceeded if the order doesn't fit the agent's limits: no approval raises them."""
        if caller.agent is not None and quote.state is QuoteState.QUOTED:
            async with self.db.read() as tx:
                await spending.check(
                    tx, caller.agent, total=quote.total, currency=quote.currency, now=self.clock()
                )

    async def _ask(self, quote: QuoteRow, payment: msgspec.Raw | msgspec.UnsetType) -> ApprovalRequest:
        """Ask a person to approve the order, or return where one is asked already."""
        if quote.state is QuoteState.PENDING:
            if canonical_payment(self.open_payment(quote)) != canonical_payment(payment):
                raise _other_payment(None)
            return self._approval(quote)
        asked = replace(quote, approval=self.secrets.hash_of(self.secrets.new(quote.id)))
        given = payment_of(payment)
        sealed = None if given is None else self.vault.seal(given.decode(), context=_payment(quote.id))
        assert asked.approval is not None
        async with self.db.write() as tx:
            if not await queries.set_pending(tx, quote.id, approval=asked.approval, payment=sealed):
                raise RequestInProgress("The quote has just changed. Repeat the request.", retry_after=1)
            await audit(tx, "quote", quote.id, detail={"state": QuoteState.PENDING})
        return self._approval(asked)

    def _approval(self, quote: QuoteRow) -> ApprovalRequest:
        secret = self.secrets.find(quote)
        return ApprovalRequest(quote.id, secret, quote.expires_at, quote.total_text, quote.currency)

    # --- reading ----------------------------------------------------------------------------------

    async def find(self, caller: Caller, quote_id: UUID) -> FoundQuote:
        """Return what became of a quote of the caller's partner; its order is found for ever. Raises QuoteNotFound.

        An agent finds its own quotes and orders alone.
        """
        quote = await self._find(quote_id)
        if quote is not None and (quote.partner_id != caller.partner_id or not _may_read(caller, quote)):
            quote = None
        order = await self.find_order(caller.partner_id, quote_id, quote)
        if order is not None and not _may_see(caller, order):
            order = None
        if quote is None and order is None:
            raise QuoteNotFound(quote_id)
        approval = None
        if (
            quote is not None
            and quote.key_id == caller.key_id
            and quote.state is QuoteState.PENDING
            and not quote.is_over(self.clock())
        ):
            approval = self._approval(quote)
        return FoundQuote(id=quote_id, quote=quote, order=order, approval=approval)

    async def _get(self, caller: Caller, quote_id: UUID) -> QuoteRow:
        """Return a quote that the caller may place, or whose order it may see. Raises QuoteNotFound.

        Only the key that got a quote places it: its limits and approvals are the ones that hold. An order that was
        placed is its partner's, or its agent's, so that a key that was rolled meanwhile doesn't place another one.
        """
        quote = await self._find(quote_id)
        if quote is None or quote.partner_id != caller.partner_id:
            raise QuoteNotFound(quote_id)
        if quote.key_id == caller.key_id:
            return quote
        order = await self.find_order(caller.partner_id, quote_id, quote)
        if order is None or not _may_see(caller, order):
            raise QuoteNotFound(quote_id)
        return quote

    async def _find(self, quote_id: UUID) -> QuoteRow | None:
        async with self.db.read() as tx:
            return await queries.find_quote(tx, quote_id)

    async def find_order(
        self, storefront_id: UUID, quote_id: UUID, quote: QuoteRow | None
    ) -> OrderRow | None:
        """Return the order of the storefront's quote, whose row may be deleted.

        Then a refused one isn't found. Ids of tokens that are no quotes never leave the service.
        """
        order_id = None if quote is None else quote.order_id
        async with self.db.read() as tx:
            order_id = order_id or await orders.find_order_by_token(tx, quote_id)
            order = None if order_id is None else await orders.get_order(tx, order_id)
        return order if order is not None and order.storefront_id == storefront_id else None

    # --- sealing ----------------------------------------------------------------------------------

    def seal(self, quote_id: UUID, content: QuoteContent) -> bytes:
        return self.vault.seal(as_json(content).decode(), context=_order(quote_id))

    def open(self, quote: QuoteRow) -> QuoteContent | None:
        return open_content(self.vault, quote)

    def open_payment(self, quote: QuoteRow) -> msgspec.Raw | msgspec.UnsetType:
        """Return the payment of a quote about which a person is asked.

        Raises QuoteExpired if it is sealed with a key that is gone.
        """
        if quote.payment is None:
            return UNSET
        try:
            return msgspec.Raw(self.vault.open(quote.payment, context=_payment(quote.id)).encode())
        except VaultError:
            raise QuoteExpired(quote) from None


def _final(outcome: OrderOutcome) -> OrderOutcome:
    """Return an outcome that no repeat changes: a quote is for one order, also if its store refused that one."""
    if not isinstance(outcome, RefusedOrder) or not outcome.problem.retryable:
        return outcome
    detail = f"{outcome.problem.detail} This quote's order has ended: quote the order again to try once more."
    return replace(
        outcome, problem=replace(outcome.problem, retryable=False, retry_after=None, detail=detail)
    )


def open_content(vault: Vault, quote: QuoteRow) -> QuoteContent | None:
    """Return the quote's content; None if it is erased, or sealed with a key that is gone."""
    if quote.content is None:
        return None
    try:
        return _content.decode(vault.open(quote.content, context=_order(quote.id)))
    except VaultError:
        return None


def _may_read(caller: Caller, quote: QuoteRow) -> bool:
    """Return whether the caller may read a quote of its partner: an agent reads what its own key got."""
    return caller.agent is None or quote.key_id == caller.key_id


def _may_see(caller: Caller, order: OrderRow) -> bool:
    """Return whether the caller may see an order of its partner: an agent sees its own."""
    return caller.agent is None or order.agent_id == caller.agent.id


def _order(quote_id: UUID) -> str:
    """Return the context in which the quote's order is sealed."""
    return f"quote {quote_id}"


def _payment(quote_id: UUID) -> str:
    """Return the context in which the quote's payment is sealed."""
    return f"quote payment {quote_id}"


def _check_total(quote: QuoteRow, total: str) -> None:
    """Raise OrderTotalDifferent unless this is what the quote says, ValidationFailed for what is no amount."""
    try:
        same = to_minor(total, quote.currency) == quote.total
    except MoneyError as fault:
        raise ValidationFailed.at("/total", f"total: {fault}") from None
    if not same:
        raise OrderTotalDifferent(
            f"The quote's total is {quote.total_text} {quote.currency}. Show it to the customer, and send it as total. "
            "Nothing was placed with this request."
        )


def _other_payment(reused: IdempotencyKeyReused | None) -> IdempotencyKeyReused:
    return IdempotencyKeyReused(
        "The quote was placed with another payment. Read what became of it before anything is placed again, and quote "
        "the order again to pay for it in another way.",
        extensions={} if reused is None else reused.extensions,
    )
