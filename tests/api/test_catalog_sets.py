"""Immutable bytes in the client's coding, a strong tag for each, 304."""

import asyncio
import gzip
import json
import threading
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from uuid import UUID, uuid4

import brotli
import pytest
from backports import zstd
from tests.databases import first_on_postgresql, mostly_sqlite, on_both
from tests.live_stores import live_store
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.catalogs.codings import CODINGS, decompress
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.partners.model import PartnerKind
from mercato.features.stores import catalogs
from mercato.http.body import best_coding

pytestmark = [shared, mostly_sqlite]

PATH = "/v1/marketfront/catalog-sets"
OPEN = {"zstd": zstd.decompress, "br": brotli.decompress, "gzip": gzip.decompress, "identity": bytes}


@pytest.fixture
async def storefront(mercato: Service) -> Client:
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await live_store(mercato, pos, shop, CATALOG, webhook=False)


async def read(client: Client, path: str, coding: str, **headers: str) -> Any:
    """Read without the client library's own decoding."""
    sent = {"Authorization": f"Bearer {client.key}", "Accept-Encoding": coding} | headers
    async with client.session.get(client.base + path, headers=sent, auto_decompress=False) as reply:
        return reply.status, reply.headers, await reply.read()


async def test_a_catalog_set_is_served_in_the_codings_made_at_ingest(storefront: Client, store: Any):
    tags = set()
    for coding, decode in OPEN.items():
        status, headers, body = await read(storefront, f"{PATH}/{store['catalogSetId']}", coding)
        assert status == 200
        assert headers.get("Content-Encoding", "identity") == coding
        assert headers["Vary"] == "Accept-Encoding"
        assert headers["Cache-Control"] == "private, max-age=31536000, immutable"
        served = json.loads(decode(body))
        assert (served["catalogSetId"], served["storeId"]) == (store["catalogSetId"], store["storeId"])
        assert served["items"][ITEM]["basePrice"] == "4.50"
        tags.add(headers["ETag"])
    assert len(tags) == 4


async def test_a_catalog_set_is_decompressed_beside_the_requests_of_others(
    storefront: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    threads: list[int] = []

    def observed(content: bytes, coding: str) -> bytes:
        threads.append(threading.get_ident())
        return decompress(content, coding)

    monkeypatch.setattr(catalogs, "decompress", observed)
    status, _, body = await read(storefront, f"{PATH}/{store['catalogSetId']}", "identity")
    assert (status, json.loads(body)["catalogSetId"]) == (200, store["catalogSetId"])
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_if_none_match_takes_any_codings_tag_or_a_star(storefront: Client, store: Any):
    path = f"{PATH}/{store['catalogSetId']}"
    tag = (await read(storefront, path, "gzip"))[1]["ETag"]
    for known in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        status, headers, body = await read(storefront, path, "br", **{"If-None-Match": known})
        assert (status, body) == (304, b"")
        assert headers["ETag"] != tag
    assert (await read(storefront, path, "br", **{"If-None-Match": '"other"'}))[0] == 200


@first_on_postgresql
@pytest.mark.parametrize("surface", ["marketfront", "commerce"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_preconditions_are_evaluated_in_the_order_of_rfc_9110(
    pos: Client, storefront: Client, store: Any, surface: str, method: str
):
    client = pos if surface == "commerce" else storefront
    path = f"/v1/{surface}/catalog-sets/{store['catalogSetId']}"
    first = await client.get(path, headers={"Accept-Encoding": "gzip"})
    tag, made = first.headers["ETag"], parsedate_to_datetime(first.headers["Last-Modified"])
    same = first.headers["Last-Modified"]
    before, after = (format_datetime(made + timedelta(seconds=n), usegmt=True) for n in (-1, 1))
    for headers, status in (
        ({"If-Match": tag}, 200),
        ({"If-Match": "*"}, 200),
        ({"If-Match": f'"other", {tag}'}, 200),
        ({"If-Match": tag.replace("-gzip", "-br")}, 200),
        ({"If-Match": f"W/{tag}"}, 412),
        ({"If-Match": '"other"'}, 412),
        ({"If-Match": ""}, 412),
        ({"If-Unmodified-Since": same}, 200),
        ({"If-Unmodified-Since": after}, 200),
        ({"If-Unmodified-Since": before}, 412),
        ({"If-Unmodified-Since": "yesterday"}, 200),
        ({"If-Unmodified-Since": f"{before}, {before}"}, 200),
        ({"If-Match": tag, "If-Unmodified-Since": before}, 200),
        ({"If-Match": '"other"', "If-None-Match": tag}, 412),
        ({"If-Match": tag, "If-None-Match": tag}, 304),
        ({"If-Unmodified-Since": before, "If-None-Match": tag}, 412),
        ({"If-Modified-Since": same}, 304),
        ({"If-Modified-Since": before}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-Modified-Since": same, "If-None-Match": '"other"'}, 200),
    ):
        reply = await client.call(method, path, headers={"Accept-Encoding": "gzip"} | headers)
        assert reply.status == status, headers
        assert status == 412 or (reply.headers["ETag"], reply.headers["Last-Modified"]) == (tag, same)
        if status == 412 and method == "GET":
            assert reply.json()["errorCode"] == "PRECONDITION_FAILED"


async def test_a_precondition_of_an_unknown_set_is_404(storefront: Client, store: Any):
    reply = await storefront.get(f"{PATH}/{uuid4()}", headers={"If-Match": '"other"'})
    assert reply.status == 404


async def test_a_superseded_set_stays_readable_and_an_unknown_one_is_404(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client, store: Any
):
    await mercato.run(pos, store["storeId"], shop.host(CATALOG | {"note": "new"}, "/new.json"))
    assert (await storefront.get(f"{PATH}/{store['catalogSetId']}")).status == 200
    assert (await storefront.get(f"{PATH}/{uuid4()}")).json()["errorCode"] == "CATALOGSET_NOT_FOUND"
    assert (await pos.get(f"{PATH}/{store['catalogSetId']}")).status == 403


@own()
@on_both
async def test_what_an_onboarding_has_pulled_is_not_readable_before_it_is_activated(
    mercato: Service, pos: Client, shop: MerchantServer, storefront: Client
):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    from sqlalchemy import select

    from mercato.features.catalogs.tables import catalog_sets

    async with mercato.app.db.read() as tx:
        set_id = await tx.scalar(select(catalog_sets.c.id))
    assert (await storefront.get(f"{PATH}/{set_id}")).status == 404
    await pos.post(f"/v1/commerce/onboarding/stores/{status['onboardingId']}/activate")
    assert (await storefront.get(f"{PATH}/{set_id}")).status == 200


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", "identity"),
        ("identity", "identity"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("gzip;q=1.0, br;q=0.5", "gzip"),
        ("*", "zstd"),
        ("zstd;q=0, *;q=0.5", "br"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0.5, identity", "identity"),
        ("gzip;q=0.5, identity;q=0.2", "gzip"),
        ("gzip, identity", "gzip"),
        ("gzip;q=x", "identity"),
    ],
)
def test_the_coding_is_the_one_that_the_client_prefers(accepted: str, coding: str):
    assert best_coding(accepted.encode(), CODINGS) == coding


@on_both
async def test_a_catalog_that_many_carts_miss_at_once_is_unpacked_once(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    catalogs = CompiledCatalogs(mercato.app.db)
    set_id = UUID(store["catalogSetId"])
    found = await asyncio.gather(*(catalogs.get(set_id) for _ in range(20)))
    assert all(one is found[0] for one in found)
    assert await catalogs.get(set_id) is found[0]
