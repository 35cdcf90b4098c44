"""All checks of a merchant."""

from typing import Final

from mercato.certify.merchant import catalog, contents, events, oddities
from mercato.certify.merchant.bench import Bench
from mercato.certify.signatures import signatures
from mercato.certify.suite import Suite
from mercato.certify.transport import transport

MERCHANT: Final = Suite[Bench](
    signatures.under("merchant"),
    oddities.group,
    contents.group,
    events.group,
    transport.under("merchant"),
    catalog.group,
)
