"""The example programs work as processes against a service, and say what to do if they can't."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.databases import only_sqlite
from tests.forks import Running, start
from tests.ports import free_port
from tests.service import Service, service
from tests.waiting import PATIENCE

from mercato.features.orders.service import Orders
from mercato.features.partners.model import PartnerKind
from mercato_client import AsyncClient, errors, types

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = only_sqlite


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with service(database_url, tmp_path / "data") as running:
        yield running


@pytest.fixture
async def desk(mercato: Service, tmp_path: Path) -> Path:
    """A directory with the two files that `mercato partner create` prints."""
    merchant, _ = await mercato.partner(PartnerKind.COMMERCE)
    storefront, _ = await mercato.partner(PartnerKind.MARKETFRONT)
    assert merchant.commerce_key is not None
    assert storefront.marketfront_key is not None
    told = {"commerceKey": merchant.commerce_key.text, "signingSecret": merchant.signing_secret}
    (tmp_path / "partner.json").write_text(json.dumps(told))
    (tmp_path / "shop.json").write_text(json.dumps({"marketfrontKey": storefront.marketfront_key.text}))
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).symlink_to(example)
    return tmp_path


async def started(desk: Path, url: str, name: str, *arguments: str, is_script: bool = False) -> Running:
    """Start an example, which is imported as a module unless it is to be started as its readers do."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MERCATO_")}
    environment = clean | {"MERCATO_URL": url}
    pipe = asyncio.subprocess.PIPE
    if is_script:
        return await asyncio.create_subprocess_exec(
            sys.executable, EXAMPLES / name, *arguments, cwd=desk, env=environment, stdout=pipe, stderr=pipe
        )
    module = name.removesuffix(".py")
    return await start(*arguments, module=module, cwd=desk, env=environment, stdout=pipe, stderr=pipe)


async def told(process: Running) -> tuple[int | None, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def merchant(desk: Path, url: str, *, is_script: bool = False) -> AsyncIterator[Running]:
    """Run the merchant on a free port until its store is live."""
    process = await started(desk, url, "merchant.py", "partner.json", "0", is_script=is_script)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("Harbour Ramen is live: "), line
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def interrupted(process: Running) -> tuple[int | None, str, str]:
    """Press Ctrl-C, patiently, until the process ends: a second one would interrupt its output."""
    ended = asyncio.create_task(told(process))
    while not ended.done():
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await asyncio.wait([ended], timeout=PATIENCE)
    return ended.result()


async def test_a_storefront_buys_from_a_merchant(mercato: Service, desk: Path):
    async with merchant(desk, mercato.base, is_script=True) as shop:
        bought = await told(
            await started(desk, mercato.base, "storefront.py", "shop.json", "gyoza", is_script=True)
        )
        assert bought[0] == 0, bought
        lines = bought[1].splitlines()
        assert lines[0] == "Harbour Ramen sells Gyoza for 6.25."
        assert "is placed: 14.50 USD." in lines[1]
        assert lines[-1] == "The order is completed."
        assert shop.stdout is not None
        async with asyncio.timeout(60):
            assert b"was handed over." in await shop.stdout.readline()
        assert await interrupted(shop) == (0, "Closed.\n", "")


async def test_a_merchant_cancels_an_order_that_waits_and_none_that_it_has_begun(
    mercato: Service, desk: Path, monkeypatch: pytest.MonkeyPatch
):
    update, cancels = Orders.update, asyncio.Event()

    async def held(orders: Orders, *given: Any) -> Any:
        await cancels.wait()
        return await update(orders, *given)

    # The first order is being cooked until then, and the other one waits for it, however slow the machine is.
    monkeypatch.setattr(Orders, "update", held)
    async with merchant(desk, mercato.base) as shop:
        bought = [await started(desk, mercato.base, "storefront.py", "shop.json") for _ in range(2)]
        for storefront in bought:
            assert storefront.stdout is not None
            async with asyncio.timeout(60):
                while b"is placed" not in await storefront.stdout.readline():
                    pass
        key = json.loads((desk / "shop.json").read_text())["marketfrontKey"]
        async with AsyncClient(mercato.base, key) as client:
            placed = [one async for one in client.list_marketfront_orders()]
            # By the merchant's own numbers: ids of one millisecond have no order.
            begun, waits = sorted(placed, key=lambda one: str(one.partner_order_id))
            cancelled = await client.cancel_order(waits.order_id, reason="CHANGED_MIND")
            assert cancelled.state == "cancelled"
            with pytest.raises(errors.ConflictError, match="It is being cooked"):
                await client.cancel_order(begun.order_id, reason="CHANGED_MIND")
        cancels.set()
        assert [(await told(storefront))[0] for storefront in bought] == [0, 0]
        await interrupted(shop)


async def test_a_storefront_that_is_interrupted_says_what_becomes_of_its_order(mercato: Service, desk: Path):
    async with merchant(desk, mercato.base) as shop:
        shop.kill()
        await shop.wait()
        pos = json.loads((desk / "partner.json").read_text())
        async with AsyncClient(mercato.base, pos["commerceKey"]) as client:
            async for store in client.list_stores():
                # Without a webhook it takes the order, and nothing updates it.
                await client.update_store(store.store_id, types.StoreUpdate(webhook_url=None))
    bought = await started(desk, mercato.base, "storefront.py", "shop.json")
    assert bought.stdout is not None
    async with asyncio.timeout(60):
        assert b"Harbour Ramen sells" in await bought.stdout.readline()
        assert b"is placed: 29.00 USD." in await bought.stdout.readline()
    code, out, err = await interrupted(bought)
    assert (code, out) == (1, "")
    assert (
        err == "Stopped. If an order was placed, its store continues with it. Its key is in last-order.key.\n"
    )
    assert len((desk / "last-order.key").read_text()) == 36


async def test_a_restarted_merchant_finds_its_store(mercato: Service, desk: Path):
    for _ in range(2):
        async with merchant(desk, mercato.base):
            pass


async def test_a_merchant_survives_a_webhook_that_is_cut_off_without_a_traceback(
    mercato: Service, desk: Path
):
    async with merchant(desk, mercato.base) as shop:
        pos = json.loads((desk / "partner.json").read_text())
        async with AsyncClient(mercato.base, pos["commerceKey"]) as client:
            (store,) = (await client.list_stores()).stores
        hooks = urlsplit(str(store.webhook_url))
        for _ in range(3):
            _, writer = await asyncio.open_connection(hooks.hostname, hooks.port)
            head = (
                f"POST {hooks.path}/place HTTP/1.1\r\nHost: {hooks.netloc}\r\nContent-Length: 1000\r\n\r\n{{"
            )
            writer.write(head.encode())
            await writer.drain()
            writer.transport.abort()
        bought = await told(await started(desk, mercato.base, "storefront.py", "shop.json", "gyoza"))
        assert bought[0] == 0, bought
        _, _, err = await interrupted(shop)
        assert "Traceback" not in err


async def test_a_storefront_that_finds_nothing_says_so(mercato: Service, desk: Path):
    code, out, err = await told(await started(desk, mercato.base, "storefront.py", "shop.json", "caviar"))
    assert (code, out) == (1, "")
    assert "No open store sells 'caviar'" in err


@pytest.mark.parametrize(("name", "file"), [("merchant.py", "partner.json"), ("storefront.py", "shop.json")])
async def test_faults_are_explained_in_plain_words(mercato: Service, desk: Path, name: str, file: str):
    wrong = json.dumps({"commerceKey": "mk_x", "marketfrontKey": "mk_x", "signingSecret": "whsec_AAAA"})
    (desk / "wrong.json").write_text(wrong)
    (desk / "empty.json").write_text("{}")
    (desk / "broken.json").write_text("{")
    (desk / "list.json").write_text("[]")
    nowhere = f"http://127.0.0.1:{free_port()}"
    port = ["0"] if name == "merchant.py" else []
    for url, arguments, words in (
        (nowhere, [file, *port], "Is the service running"),
        (mercato.base, ["wrong.json", *port], "UNAUTHENTICATED"),
        (mercato.base, ["empty.json", *port], "of a partner of the other kind"),
        (mercato.base, ["broken.json", *port], "line 1"),
        (mercato.base, ["none.json", *port], "Create it with mercato partner create"),
        (mercato.base, ["list.json", *port], "it has no JSON object"),
        (mercato.base, [], f"python examples/{name}"),
    ):
        code, out, err = await told(await started(desk, url, name, *arguments))
        assert (code, out) == (1, ""), (words, out, err)
        assert words in err
        assert "Traceback" not in err


async def test_a_merchant_on_an_invalid_or_used_port_says_how_to_choose_another(mercato: Service, desk: Path):
    taken = mercato.base.rpartition(":")[2]
    for port, words in (
        ("foo", "foo isn't a port"),
        ("-1", "-1 isn't a port"),
        ("65536", "65536 isn't a port"),
        (taken, f"Port {taken} cannot be used. Give another one after the file"),
    ):
        code, out, err = await told(await started(desk, mercato.base, "merchant.py", "partner.json", port))
        assert (code, out) == (1, "")
        assert words in err
        assert "Errno" not in err
