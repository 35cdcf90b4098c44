"""Doubles of both partners, to test one side without the other.

async with MerchantDouble(secret="whsec_…", behaviour=["place decline:ITEM_UNAVAILABLE"]) as merchant:
    ...  # merchant.webhook_url is what the service calls

with MerchantDouble(secret="whsec_…") as merchant:  # without asyncio: it runs in a thread of its own
    ...
"""

try:
    import aiohttp  # noqa: F401  # the extra has it
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        'mercato_client.testing needs more packages: pip install "mercato-client[testing]".',
        name=missing.name,
    ) from missing

from mercato_client.testing.acts import Act, ActError, Script
from mercato_client.testing.agent import AgentDouble
from mercato_client.testing.double import Double, Reply
from mercato_client.testing.journal import Journal, Seen
from mercato_client.testing.merchant import DECLINED_CARD, Entry, MerchantDouble
from mercato_client.testing.server import Received
from mercato_client.testing.storefront import Outcome, Purchase, StorefrontDouble

__all__ = [
    "DECLINED_CARD",
    "Act",
    "ActError",
    "AgentDouble",
    "Double",
    "Entry",
    "Journal",
    "MerchantDouble",
    "Outcome",
    "Purchase",
    "Received",
    "Reply",
    "Script",
    "Seen",
    "StorefrontDouble",
]
