"""All checks of a merchant."""

from typing import Final

from mercato.certify.merchant import catalog, events, placing, questions, signatures, transport
from mercato.certify.merchant.bench import Bench
from mercato.certify.suite import Suite

MERCHANT: Final = Suite[Bench](
    signatures.group, questions.group, placing.group, events.group, transport.group, catalog.group
)
