"""`mercato sandbox`: a simulated merchant and storefront with scripted behaviour, to test one side alone.

One line per call, as text or JSON, until Ctrl-C or the end of the work.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final, Literal, TextIO

from cyclopts import Parameter

from mercato_client.testing.caller import DOOR, ServiceError, facts_of
from mercato_client.testing.double import Double
from mercato_client.testing.journal import VALID, Seen, line_of
from mercato_contract.texts import count_of
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.failures import cannot_listen
from mercato_tools.cli.inputs import check_secrets, read_file, read_secret, read_secrets
from mercato_tools.cli.options import Port, between, group
from mercato_tools.cli.output import note, sanitize, truncate, width, wrap


class CallDisplay:
    """Shows the calls of a double. `facts` are printed at the start."""

    def __init__(self, double: Double, *, log: Path | None, as_json: bool) -> None:
        self.facts: list[tuple[str, object]] = []
        self._double = double
        self._as_json = as_json
        self._log = None if log is None else _open_log(log)
        self._lines: asyncio.Queue[Seen | str] = asyncio.Queue()
        double.journal.tell(self._lines.put_nowait)

    def say(self, words: str) -> None:
        """Print a sentence between the calls."""
        self._lines.put_nowait(words)

    def run(self, work: Coroutine[Any, Any, int] | None = None) -> int:
        """Run the double and the work beside it; return the exit code, 0 when interrupted."""
        try:
            return asyncio.run(self._run(work))
        except ServiceError as error:
            note("\n".join(wrap(str(error))))
            return FAILED
        finally:
            if work is not None:
                work.close()
            if self._log is not None:
                self._log.close()

    async def _run(self, work: Coroutine[Any, Any, int] | None) -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._double)
            except (OSError, UnicodeError) as error:
                raise cannot_listen(error, *self._double.requested_address) from None
            self._begin()
            stopping = asyncio.create_task(stop.wait())
            showing = asyncio.create_task(self._show_all())
            working = None if work is None else asyncio.create_task(work)
            tasks = [task for task in (stopping, showing, working) if task is not None]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            while showing not in done and not self._lines.empty():
                self._show(self._lines.get_nowait())
            for task in done:
                _raise_of(task)
            results = ", ".join(f"{name} {value}" for name, value in self._double.facts())
            note(f"Ended. {count_of(self._double.journal.count, 'call')}; {results}.")
            return working.result() if working is not None and working in done else 0

    def _begin(self) -> None:
        """Print its address and how to use it."""
        title = f"{self._double.title} on {self._double.url}"
        if self._as_json:
            print(title, file=sys.stderr, flush=True)
            return
        print(title, "That is a page; /log has the same as JSON. Ctrl-C ends it.", sep="\n")
        facts = [*self.facts, *self._double.addresses()]
        wide = max(len(name) for name, _ in facts)
        for name, value in facts:
            # Never wrapped: it is copied.
            print(f"  {name:<{wide}}  {value}")
        print(flush=True)

    async def _show_all(self) -> None:
        while True:
            self._show(await self._lines.get())

    def _show(self, shown: Seen | str) -> None:
        if isinstance(shown, str):
            for words in wrap(shown, first="-- ", indent="   "):
                print(words, file=sys.stderr if self._as_json else sys.stdout, flush=True)
            return
        if self._log is not None:
            self._log.write(line_of(shown) + "\n")
            self._log.flush()
        print(line_of(shown) if self._as_json else truncate(_line(shown), width()), flush=True)


def _open_log(file: Path) -> TextIO:
    """Return the log, open until the command ends. Raises UnusableError."""
    try:
        return file.open("a", encoding="utf-8")
    except OSError as error:
        raise UnusableError(f"--log {file} cannot be written: {error.strerror}.") from None


def _raise_of(task: "asyncio.Task[Any]") -> None:
    """Raise the task's error, taken out of its exception groups."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error


def _line(call: Seen) -> str:
    """Return a call as one line: time, operation, status, verdict on its signature, and subject."""
    status = str(call.status) if call.status else "---"
    verdict = {None: "", VALID: "signed "}.get(call.verdict, f"REFUSED: {call.verdict} ")
    act = "" if call.act == "accept" else f" <{call.act}>"
    subject = call.path
    with suppress(AttributeError, KeyError, TypeError):  # an answer of no Mercato service
        subject = _subject(call)
    return sanitize(f"{call.at[11:19]}  {call.operation:<15}  {status}  {verdict}{subject}{act}")


def _subject(call: Seen) -> str:
    """Return the call's subject in a few words."""
    answer = call.answer if isinstance(call.answer, dict) else {}
    if call.path == DOOR:
        answer = facts_of(answer)
        if "sentence" in answer:
            return f"{answer['status']} {answer['total']} {answer['currency']}"
    order = answer.get("order") or answer
    errors = order.get("errors") or answer.get("errors") or ()
    if errors or "errorCode" in answer:
        return ", ".join(error["code"] for error in errors) or str(answer["errorCode"])
    if order.get("partnerOrderId"):
        return " ".join(str(order[name]) for name in ("partnerOrderId", "state", "status") if name in order)
    if "amounts" in order:
        return f"total {order['amounts'].get('total')}"
    if call.operation in {"event", "feed"}:
        return _event(call)
    return call.path if call.verdict is None else ""


def _event(call: Seen) -> str:
    """Return the type of an event that was sent or read, and what it says of an order."""
    words = ""
    with suppress(ValueError, KeyError, TypeError):
        event = call.answer if call.operation == "feed" else call.json()
        words = str(event["type"])
        order = event["data"]["order"]
        words += f" {event['data']['sequence']}: {order['state']} {order['status']}"
        words += f", now {order['amounts']['totalAfterAdjustments']}"
    return words


sandbox = group("sandbox", "Simulated partners: a merchant, a storefront.")

MAX_SCRIPT: Final = 256 * 1024
MAX_CATALOG: Final = 128 << 20
MAX_SECONDS: Final = 86_400

On = Annotated[
    list[tuple[str, str]] | None,
    Parameter(help="An act at an operation, such as: place 'decline:ITEM_UNAVAILABLE x2'."),
]
ScriptFile = Annotated[str | None, Parameter(help="A file of such lines; - is standard input.")]
Seed = Annotated[int, Parameter(help="Seed of all random choices: the same seed makes the same ones.")]
Host = Annotated[str, Parameter(help="Address to listen on.")]
Log = Annotated[Path | None, Parameter(help="Append every call to this file, as lines of JSON.")]
Lines = Annotated[bool, Parameter(name="--json", help="Lines of JSON on standard output, for programs.")]
Secrets = Annotated[
    list[str] | None,
    Parameter(help="Signing secret to verify with, @FILE, or @- for standard input."),
]
Token = Annotated[
    str | None, Parameter(help="Bearer token that webhooks have to carry, @FILE, or @- for standard input.")
]
Api = Annotated[str | None, Parameter(help="Address of a Mercato, such as http://127.0.0.1:8000.")]
Key = Annotated[str | None, Parameter(help="API key to call it with, @FILE, or @- for standard input.")]
Public = Annotated[
    str, Parameter(help="This side's address as that Mercato reaches it, if it runs on another machine.")
]
Endpoint = Annotated[
    bool, Parameter(help="Make a webhook endpoint there for every event; delete it at the end.")
]
Feed = Annotated[bool, Parameter(help="Read the events feed there with a cursor, from now on.")]


@sandbox.command
def merchant(
    *,
    port: Port = 9100,
    host: Host = "127.0.0.1",
    secret: Secrets = None,
    token: Token = None,
    shop: Literal["pizzeria", "ramen", "grocery"] = "pizzeria",
    catalog: str | None = None,
    api: Api = None,
    key: Key = None,
    public: Public = "",
    endpoint: Endpoint = False,
    feed: Feed = False,
    store: str | None = None,
    step: Annotated[float, between("--step", 0, MAX_SECONDS, " seconds")] = 2.0,
    sold_out: list[str] | None = None,
    on: On = None,
    script: ScriptFile = None,
    seed: Seed = 0,
    log: Log = None,
    json: Lines = False,
) -> int:
    """Run a merchant: host a catalog, answer order webhooks, receive events, and show every call.

    Without --api it only listens. With --api and --key it registers and activates its store there, and works
    on every order that it accepts until it is done. Runs until Ctrl-C.

    Operations: validate, place, cancel, catalog-sync, order-cancelled, event, catalog, cook. Acts: accept,
    decline:CODE, wrong[:total|subTotal|taxes], slow:SECONDS, 500 (or another status), bad-json, drop[:BYTES],
    late[:TIMES], duplicate[:number]; for cook: cancel:REASON, leave, refund:AMOUNT. After an act: x3 (three times),
    always, 20% (by chance).

    Args:
        port: Port to listen on; 0 takes a free one.
        shop: Which of three invented shops to simulate.
        catalog: A CatalogSet to host in place of the shop's; published again when it changes.
        store: partnerStoreId to register under (the shop's).
        step: Seconds that each step of an order takes.
        sold_out: An item's id, as in carts, that is sold out.

    """
    from mercato_client.testing.merchant import MerchantDouble
    from mercato_client.testing.shops import SHOPS
    from mercato_contract.problems import ORDER_ERROR_CODES

    service = _service(api, key, calls=endpoint or feed)
    if service is not None and secret is None:
        raise UnusableError(
            "Give the partner's signing secret with --secret: mercato secret list NAME --reveal"
        )
    secrets = _secrets(secret, seed)
    double = MerchantDouble(
        secret=secrets,
        token=None if token is None else read_secret(token),
        # A file is hosted as it is, valid or not.
        catalog=SHOPS[shop].document if catalog is None else read_file(catalog, max_bytes=MAX_CATALOG),
        sold_out=sold_out or (),
        behaviour=_script(on, script, MerchantDouble.operations, seed),
        host=host,
        port=port,
    )
    display = CallDisplay(double, log=log, as_json=json)
    if secret is None:
        display.facts.append(("signing secret", secrets[0]))
    for code in sorted(double.behaviour.codes - ORDER_ERROR_CODES):
        display.say(f"The specification has no code {code} for orders: storefronts treat it as OTHER.")
    if service is None:
        return display.run()
    from mercato_tools.cli.sandbox_work import trade

    return display.run(
        trade(
            double,
            display.say,
            service=service,
            shop=shop,
            store=store,
            public=public,
            step=step,
            catalog=catalog,
            endpoint=endpoint,
            feed=feed,
        )
    )


@sandbox.command
def storefront(
    *,
    port: Port = 9200,
    host: Host = "127.0.0.1",
    secret: Secrets = None,
    token: Token = None,
    api: Api = None,
    key: Key = None,
    public: Public = "",
    endpoint: Endpoint = False,
    feed: Feed = False,
    orders: int = 1,
    every: Annotated[float, between("--every", 0, MAX_SECONDS, " seconds")] = 0.0,
    follow: Annotated[float, between("--follow", 0, MAX_SECONDS, " seconds")] = 60.0,
    store: str | None = None,
    query: str | None = None,
    tools: bool = False,
    on: On = None,
    script: ScriptFile = None,
    seed: Seed = 0,
    log: Log = None,
    json: Lines = False,
) -> int:
    """Run a storefront: find stores, price carts, place orders, retry, and follow orders by events and polling.

    With --api and --key its customers buy there; it ends after the last with 0 if every order was answered
    and its sums were right, else 1. Without --api it receives order events until Ctrl-C.

    Operations: order, event. Acts of an order: accept, slow:SECONDS (between validate and place), repeat (send
    again with the same key), drop (disconnect, then send again), wrong (another total), declined (a declined card),
    unvalidated, cancel:REASON (once it is placed). Acts of an event: accept, slow:SECONDS, 500 (or another status),
    bad-json, drop[:BYTES]. Behind an act: x3 (three times), always, 20% (by chance).

    Args:
        port: Port for order events; 0 takes a free one.
        orders: How many customers buy; 0: only listen.
        every: Seconds between two customers; 0: one after the other.
        follow: How many seconds each order is followed at most.
        store: storeId to buy at (any that is open).
        query: Words to search for stores.
        tools: Order as an AI agent does: by the tools at /mcp, with names.

    """
    from mercato_client.testing.agent import AgentDouble
    from mercato_client.testing.storefront import StorefrontDouble

    if orders < 0:
        raise UnusableError("--orders cannot be less than 0.")
    service = _service(api, key, calls=endpoint or feed)
    secrets = _secrets(secret, seed)
    kind = AgentDouble if tools else StorefrontDouble
    double = kind(
        api=service[0] if service else "",
        key=service[1] if service else "",
        secret=secrets,
        token=None if token is None else read_secret(token),
        behaviour=_script(on, script, StorefrontDouble.operations, seed),
        seed=seed,
        host=host,
        port=port,
    )
    display = CallDisplay(double, log=log, as_json=json)
    if secret is None:
        display.facts.append(("signing secret", secrets[0]))
    if isinstance(double, AgentDouble):
        double.shows = lambda url: display.say(f"A person must approve this order: {url}")
    if service is None or not (orders or endpoint or feed):
        return display.run()
    from mercato_tools.cli.sandbox_work import shop_and_listen

    return display.run(
        shop_and_listen(
            double,
            display.say,
            service=service,
            public=public,
            endpoint=endpoint,
            feed=feed,
            orders=orders,
            every=every,
            follow=follow,
            store=store,
            query={} if query is None else {"query": query},
        )
    )


def _service(api: str | None, key: str | None, *, calls: bool) -> tuple[str, str] | None:
    """Return the address and the key, or None without either. Raises UnusableError if what is needed is missing."""
    if api is None and key is None and not calls:
        return None
    if api is None or key is None:
        missing = "--api, its address" if api is None else "--key: mercato key create NAME"
        raise UnusableError(f"To call a service give {missing}.")
    if not api.startswith(("http://", "https://")):
        raise UnusableError("Write --api as a URL, such as http://127.0.0.1:8000.")
    return api, read_secret(key)


def _secrets(given: Sequence[str] | None, seed: int) -> list[str]:
    """Return the secrets to verify with; without any, one made from the seed. Raises UnusableError."""
    import random

    from mercato_contract.signing import new_secret

    if given is None:
        return [new_secret(random.Random(seed).randbytes)]  # noqa: S311  # it is shown, and signs for tests
    secrets = read_secrets(given)
    check_secrets(secrets)
    return secrets


def _script(on: Sequence[tuple[str, str]] | None, file: str | None, operations: Any, seed: int) -> Any:
    """Return the script of the options, then of the file. Raises UnusableError, which names the line."""
    from mercato_client.testing.acts import ActError, Script

    script = Script(operations, seed)
    lines = [(f"--on {operation} {quote(act)}", f"{operation} {act}") for operation, act in on or ()]
    if file is not None:
        text = read_file(file, max_bytes=MAX_SCRIPT).decode("utf-8", "replace")
        lines += [(f"{file}, line {number}", line) for number, line in enumerate(text.splitlines(), 1)]
    for where, line in lines:
        try:
            script.read([line])
        except ActError as fault:
            raise UnusableError(f"{where}: {fault}") from None
    return script
