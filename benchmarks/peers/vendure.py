"""Vendure as a peer: a shop of its own, and customers who fill carts and place orders through its shop API."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.load import Load

HERE: Final = Path(__file__).parent / "vendure"
MISSING: Final = (
    "it needs Node.js 20 or newer with npm, a C++ compiler and npm's registry. Then run: make bench-peers"
)
CUSTOMERS: Final = 8
LINES: Final = 5
PRODUCTS: Final = 60
START_SECONDS: Final = 180.0

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
    """A running Vendure."""

    process: psutil.Process
    port: int

    def carts(self, seconds: float) -> Load:
        """Add items to carts of up to five lines, each answered with its prices."""
        return self._load(seconds, _fill)

    def places(self, seconds: float) -> Load:
        """Place orders of five lines: six requests each."""
        return self._load(seconds, _place)

    def _load(self, seconds: float, act: "Callable[[Customer], int]") -> Load:
        """Let customers act side by side until the time is over; return what was done a second."""
        counts: list[int] = []
        faults: list[BaseException] = []
        before, began = self.process.cpu_times(), time.perf_counter()

        def shop() -> None:
            done = 0
            try:
                while time.perf_counter() < began + seconds:
                    done += act(Customer(self.port))
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
        took, after = time.perf_counter() - began, self.process.cpu_times()
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


def _fill(customer: Customer) -> int:
    for number in range(1, LINES + 1):
        said = customer.ask(_ADD, id=str(number))["addItemToOrder"]
        if said["__typename"] != "Order":
            raise RuntimeError(said)
    return LINES


def _place(customer: Customer) -> int:
    items = [{"productVariantId": str(number), "quantity": 2} for number in range(1, LINES + 1)]
    customer.ask(_ADD_ALL, items=items)
    for step in _STEPS:
        said = customer.ask(step)
    if said["addPaymentToOrder"].get("state") != "PaymentSettled":
        raise RuntimeError(said)
    return 1


@contextmanager
def running(url: str | None) -> Iterator[Shop]:
    """Run Vendure with a new database: SQLite, or the empty PostgreSQL one at `url`."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        products = Path(directory) / "products.csv"
        products.write_text(_products())
        port = _free_port()
        command = ["node", "server.js", url or "sqlite:", directory, str(products)]
        settings = os.environ | {"PORT": str(port), "NODE_ENV": "production"}
        with subprocess.Popen(command, cwd=HERE, env=settings, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                for line in server.stdout:
                    if line.startswith("listening on "):
                        yield Shop(psutil.Process(server.pid), port)
                        break
                else:
                    raise RuntimeError("Vendure ended before it listened")
            finally:
                server.terminate()
                server.wait(30)


def _products() -> str:
    head = "name,slug,description,assets,facets,optionGroups,optionValues,sku,price,taxCategory,stockOnHand,"
    rows = [head + "trackInventory,variantAssets,variantFacets"]
    rows += [
        f"Dish {number},dish-{number},,,,,,D{number},{5 + number % 9}.50,standard,100,false,,"
        for number in range(PRODUCTS)
    ]
    return "\n".join(rows) + "\n"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
