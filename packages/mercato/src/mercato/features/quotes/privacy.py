"""Erase a customer from quotes that haven't been placed: they are sealed, so each is opened."""

from mercato.features.orders.privacy import BATCH, is_customer
from mercato.features.orders.search import find_countries
from mercato.features.partners.vault import Vault
from mercato.features.quotes import queries
from mercato.features.quotes.model import QuoteContent
from mercato.features.quotes.service import open_content
from mercato.platform.db.engine import Database


async def erase_quotes(db: Database, vault: Vault, name: str) -> int:
    """Erase the quotes of a customer, by e-mail address, phone number or `partnerUserId`; return how many.

    It may spell the address or the number otherwise, with its country code.

    Nothing can be placed with them any more. There are as many as were asked for in the last fifteen minutes. Call it
    before the customer is erased from orders, so that no quote becomes an order in between.
    """
    erased, after = 0, None
    while True:
        async with db.write() as tx:
            found = await queries.list_with_content(tx, after=after, limit=BATCH)
            countries = await find_countries(tx, {quote.store_id for quote in found})
            ids = [
                quote.id
                for quote in found
                if _is_of(name, open_content(vault, quote), countries.get(quote.store_id))
            ]
            await queries.erase_content(tx, ids)
        erased += len(ids)
        if len(found) < BATCH:
            return erased
        after = found[-1].id


def _is_of(name: str, content: QuoteContent | None, country: str | None) -> bool:
    return content is not None and is_customer(name, content.request.customer, country=country)
