"""The JSON Schema of catalog documents, as the service serves it to editors."""

from pathlib import Path

import jsonschema_rs
from tests.catalog.documents import cafe
from tests.databases import only_sqlite
from tests.service import Service, service
from tests.sharing import shared

pytestmark = shared

PATH = "/schemas/catalog-set.json"


@only_sqlite
async def test_the_schema_is_served_without_a_key_under_its_own_address(mercato: Service):
    front = mercato.anonymous()
    reply = await front.get(PATH)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/schema+json")
    schema = reply.json()
    assert schema["$id"] == mercato.base + PATH
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(cafe() | {"$schema": schema["$id"]})
    assert not validator.is_valid(cafe() | {"currency": "usd"})
    head = await front.call("HEAD", PATH)
    assert (head.status, head.body) == (200, b"")


@only_sqlite
async def test_with_a_public_url_the_schema_names_it_and_may_be_cached(database_url: str, tmp_path: Path):
    public = "https://api.example.com/network"
    async with service(database_url, tmp_path / "data", public_url=public) as mercato:
        reply = await mercato.anonymous().get(PATH)
    assert reply.json()["$id"] == public + PATH
    assert "max-age" in reply.headers["Cache-Control"]
