"""All checks of a storefront."""

from typing import Final

from mercato.certify.signatures import signatures
from mercato.certify.storefront import buying, events, troubles
from mercato.certify.storefront.bench import Bench
from mercato.certify.suite import Suite
from mercato.certify.transport import transport

STOREFRONT: Final = Suite[Bench](
    buying.group,
    buying.asking,
    buying.choosing,
    troubles.group,
    troubles.refusing,
    signatures.under("storefront"),
    events.group,
    transport.under("storefront"),
)
