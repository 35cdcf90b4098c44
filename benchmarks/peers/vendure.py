"""Vendure as a peer: a shop of its own, and customers who fill carts and place orders through its shop API.

It has no modifiers: each product costs what an item of ours costs with the modifiers that the carts choose.
"""

import http.client
import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from benchmarks.load import Load, Processor, started
from benchmarks.peers.databases import Database

HERE: Final = Path(__file__).parent / "vendure"
MISSING: Final = (
    "it needs Node.js 20 or newer with npm, a C++ compiler and npm's registry. Then run: make bench-peers"
)
CUSTOMERS: Final = 8
LINES: Final = 5
PLACEMENTS: Final = 24
"""Carts that are filled before a turn, and at most so many orders in it."""

_ADD: Final = """mutation ($id: ID!) { addItemToOrder(productVariantId: $id, quantity: 2) {
  __typename ... on Order { code totalWithTax lines { id unitPriceWithTax quantity linePriceWithTax } } } }"""
_ADD_ALL: Final = """mutation ($items: [AddItemInput!]!) { addItemsToOrder(inputs: $items) {
  __typename order { code totalWithTax lines { id unitPriceWithTax quantity linePriceWithTax } } } }"""
_STEPS: Final = (
    """mutation { setCustomerForOrder(input: {emailAddress: "a@example.com", firstName: "Ada", lastName: "L."}) {
      __typename } }""",
    """mutation { setOrderShippingAddress(input: {streetLine1: "1 Main St", city: "Springfield", postalCode: "62701",
      countryCode: "US"}) { __typename } }""",
    """mutation { setOrderShippingMethod(shippingMethodId: ["1"]) { __typename } }""",
    """mutation { transitionOrderToState(state: "ArrangingPayment") { __typename } }""",
    """mutation { addPaymentToOrder(input: {method: "card", metadata: {}}) {
      __typename ... on Order { code state totalWithTax } } }""",
)


def is_ready() -> bool:
    """Return whether Vendure can run here; install it if that hasn't been done."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return False
    if (HERE / "node_modules" / "@vendure" / "core").is_dir():
        return True
    settings = (
        os.environ | {"npm_config_nodedir": "/usr"} if Path("/usr/include/node").is_dir() else os.environ
    )
    install = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, env=settings, check=False)
    return install.returncode == 0


@dataclass(frozen=True)
class Shop:
    """A running Vendure, and the processes whose CPU counts."""

    processes: Processor
    port: int

    def check(self, cents: int) -> None:
        """Raise unless a cart of five lines and its order cost so much."""
        customer = Customer(self.port)
        totals = [_fill(customer)["totalWithTax"], _place(customer)["totalWithTax"]]
        if totals != [cents, cents]:
            raise RuntimeError(f"carts and orders cost {cents} cents here, {totals} there")

    def carts(self, seconds: float) -> Load:
        """Add two of the fifth item to carts of five lines, over and over, each answered with its prices."""
        return self._load(self._customers(CUSTOMERS), _add, seconds=seconds, again=True)

    def places(self, seconds: float) -> Load:
        """Make orders of carts of five lines, which were filled before: five requests each."""
        return self._load(self._customers(PLACEMENTS), _place, seconds=seconds, again=False)

    def _customers(self, count: int) -> "queue.SimpleQueue[Customer]":
        """Return customers with full carts."""
        customers: queue.SimpleQueue[Customer] = queue.SimpleQueue()
        for _ in range(count):
            customer = Customer(self.port)
            _fill(customer)
            customer.disconnect()
            customers.put(customer)
        return customers

    def _load(
        self,
        customers: "queue.SimpleQueue[Customer]",
        act: "Callable[[Customer], Any]",
        *,
        seconds: float,
        again: bool,
    ) -> Load:
        """Let eight customers act side by side until the time or they are over; return what was done a second."""
        counts: list[int] = []
        faults: list[BaseException] = []
        before, began = self.processes.cpu_times(), time.perf_counter()

        def shop() -> None:
            done = 0
            try:
                while time.perf_counter() < began + seconds:
                    customer = customers.get_nowait()
                    act(customer)
                    done += 1
                    if again:
                        customers.put(customer)
            except queue.Empty:
                pass
            except Exception as fault:  # noqa: BLE001  # raised in the thread that measures
                faults.append(fault)
            counts.append(done)

        threads = [threading.Thread(target=shop) for _ in range(CUSTOMERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        took, after = time.perf_counter() - began, self.processes.cpu_times()
        cpu = (after.user - before.user) + (after.system - before.system)
        count = sum(counts)
        return Load(per_second=count / took, cpu_us=cpu / count * 1e6, latencies=[])


class Customer:
    """A customer with a session and a connection of its own."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._token: str | None = None

    def ask(self, query: str, **variables: Any) -> Any:
        """Return the data of an answer. Raises RuntimeError for errors."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        self._connection.request(
            "POST", "/shop-api", json.dumps({"query": query, "variables": variables}), headers
        )
        answer = self._connection.getresponse()
        self._token = answer.getheader("vendure-auth-token") or self._token
        said = json.loads(answer.read())
        if "errors" in said:
            raise RuntimeError(said["errors"])
        return said["data"]

    def disconnect(self) -> None:
        """Close the connection, which the server closes after five idle seconds. The next request opens one."""
        self._connection.close()


def _add(customer: Customer) -> None:
    said = customer.ask(_ADD, id=str(LINES))["addItemToOrder"]
    if said["__typename"] != "Order":
        raise RuntimeError(said)


def _fill(customer: Customer) -> Any:
    """Return the cart."""
    items = [{"productVariantId": str(number), "quantity": 2} for number in range(1, LINES + 1)]
    return customer.ask(_ADD_ALL, items=items)["addItemsToOrder"]["order"]


def _place(customer: Customer) -> Any:
    """Return the order."""
    for step in _STEPS:
        said = customer.ask(step)
    customer.disconnect()
    order = said["addPaymentToOrder"]
    if order.get("state") != "PaymentSettled":
        raise RuntimeError(order)
    return order


@contextmanager
def running(database: Database, prices: list[Decimal]) -> Iterator[Shop]:
    """Run Vendure with a new database, and a product at each price."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        products = Path(directory) / "products.csv"
        products.write_text(_products(prices))
        port = _free_port()
        command = ["node", "server.js", database.url or "sqlite:", directory, str(products)]
        settings = {"PORT": str(port), "NODE_ENV": "production"}
        with started(command, settings=settings, directory=HERE) as (process, _):
            yield Shop(database.with_server(process), port)


def _products(prices: list[Decimal]) -> str:
    head = "name,slug,description,assets,facets,optionGroups,optionValues,sku,price,taxCategory,stockOnHand,"
    rows = [head + "trackInventory,variantAssets,variantFacets"]
    rows += [
        f"Dish {number},dish-{number},,,,,,D{number},{price},standard,100,false,,"
        for number, price in enumerate(prices)
    ]
    return "\n".join(rows) + "\n"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
