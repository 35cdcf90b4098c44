"""A running service, a merchant's web server, and the settings of a client's program."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.catalog.documents import cafe
from tests.service import merchant, service

from mercato.features.partners.model import PartnerKind


@pytest.fixture
async def facts(database_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """Where the service and the merchant are, and a key of each surface, as JSON."""
    async with merchant() as shop, service(database_url, tmp_path / "data") as mercato:
        shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True, "partnerOrderId": "A-1"}}
        pos, _ = await mercato.partner()
        front, _ = await mercato.partner(PartnerKind.MARKETFRONT)
        assert pos.commerce_key is not None
        assert front.marketfront_key is not None
        yield json.dumps(
            {
                "base": mercato.base,
                "commerceKey": pos.commerce_key.text,
                "marketfrontKey": front.marketfront_key.text,
                "catalogUrl": shop.host(cafe()),
                "webhookUrl": shop.base + "/hooks",
            }
        )
