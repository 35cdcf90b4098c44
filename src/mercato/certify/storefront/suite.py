"""All checks of a storefront."""

from typing import Final

from mercato.certify.signatures import signatures
from mercato.certify.storefront import asking, buying, choosing, events, refusals, troubles
from mercato.certify.storefront.bench import Bench
from mercato.certify.suite import Suite
from mercato.certify.transport import transport

STOREFRONT: Final = Suite[Bench](
    buying.group,
    asking.group,
    choosing.group,
    troubles.group,
    refusals.group,
    signatures.under("storefront"),
    events.group,
    transport.under("storefront"),
)
