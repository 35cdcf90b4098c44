"""Erasure: erases a customer from every order, after showing what that affects.

The customer's name is in forms alone: an address of a page is in logs and in the browser's history.
"""

from typing import Annotated, Final

from msgspec import Meta

from mercato.console.screen import OPERATORS, Done, Page, Screens, Visit
from mercato.features.orders.privacy import LOG_SECONDS, erase_all, find_all
from mercato.features.sign_in.roles import Permission
from mercato.platform.errors import ValidationFailed
from mercato.platform.texts import count_of
from mercato_contract.wire import Wire, redacted

screens: Final = Screens(OPERATORS)

SHOWN: Final = 100
"""Orders that are listed before."""


@redacted("customer")
class ErasureForm(Wire):
    """An email address, phone number or partnerUserId, exactly as it was sent."""

    customer: Annotated[str, Meta(max_length=400)] = ""


@screens.get("erasure", needs=Permission.ERASE)
async def show_erasure(visit: Visit) -> Page:
    assert visit.is_operator
    return Page("erasure.html", "Erasure", {"customer": "", "found": None, "most": SHOWN})


@screens.post("erasure/find", needs=Permission.ERASE)
async def find_customer(visit: Visit) -> Page:
    customer = _customer(visit)
    found = await find_all(visit.app.db, customer)
    return Page("erasure.html", "Erasure", {"customer": customer, "found": found, "most": SHOWN})


@screens.post("erasure/confirm", needs=Permission.ERASE)
async def confirm_erasure(visit: Visit) -> Page:
    return Page("erasure_confirm.html", "Erase this customer?", {"customer": _customer(visit)})


@screens.post("erasure/erase", needs=Permission.ERASE)
async def erase_customer(visit: Visit) -> Done:
    count, emptied = await erase_all(visit.app.db, _customer(visit))
    said = f"The customer was erased from {count_of(count, 'order')}."
    if not emptied:
        said += (
            " The database's log may still hold what was erased: a long-running reader, such as a backup, kept "
            f"it in use for {LOG_SECONDS:g} s. Erase the customer again once it has ended."
        )
    return Done(said, to="/console/erasure")


def _customer(visit: Visit) -> str:
    customer = visit.fields(ErasureForm).customer.strip()
    if not customer:
        raise ValidationFailed.at(
            None, "Name the customer: an e-mail address, a phone number or a partnerUserId, as it was sent."
        )
    return customer
