"""What `mercato sandbox merchant` does at a service: goes live, cooks orders, publishes a changed catalog."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Never

import aiohttp

from mercato.testing.caller import Caller, ServiceError
from mercato.testing.merchant import MerchantDouble
from mercato.testing.opening import Opening
from mercato.testing.order_simulator import OrderSimulator
from mercato.testing.shops import SHOPS

HANDS: Final = 20
"""Orders that are worked on at a time."""

LOOK_SECONDS: Final = 1.0
"""How often the catalog's file is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """What the command was asked for. `service` is an address and a key."""

    service: tuple[str, str] = field(repr=False)
    shop: str
    store: str | None
    public: str
    step: float
    catalog: str | None


async def trade(double: MerchantDouble, asked: Trade, say: Callable[[str], object]) -> Never:
    """Go live and work until cancelled. Raises ServiceError when the store does not go live."""
    shop = SHOPS[asked.shop]
    if asked.store is not None:
        shop = replace(shop, partner_store_id=asked.store)
    file = None if asked.catalog in {None, "-"} else Path(str(asked.catalog))
    known = None if file is None else _changed(file)
    async with aiohttp.ClientSession() as session:
        caller = Caller(*asked.service, session)
        opening = Opening(double, caller, say, public=asked.public)
        await opening.open(shop)
        simulator = OrderSimulator(double, caller, step_seconds=asked.step, say=say)
        async with asyncio.TaskGroup() as work:
            work.create_task(simulator.run(workers=HANDS))
            if file is not None:
                work.create_task(_follow(file, double, opening, known=known))
    raise AssertionError("nobody asked the kitchen to close")


async def _follow(
    file: Path, double: MerchantDouble, opening: Opening, *, known: tuple[int, int] | None
) -> None:
    """Publish the file again whenever it is not as it was known to be."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = _changed(file)
        if now not in {known, None}:
            try:
                document = _read(file)
            except OSError:
                continue  # an editor has just taken it away: it is looked at again
            known = now
            double.host("/catalog.json", document)
            try:
                await opening.publish()
            except ServiceError as error:
                opening.say(f"{error} It is published with its next change.")


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _changed(file: Path) -> tuple[int, int] | None:
    """Return what is another after every change; None while there is no file, as an editor may have it."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
