"""What the simulators show: one line for each call, or one of JSON, until Ctrl-C or the work's own end."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TextIO

from mercato.cli import FAILED
from mercato.cli.failures import UnusableError, cannot_listen
from mercato.cli.plain import cut, folded, harmless, width
from mercato.plurals import count_of
from mercato.testing.caller import ServiceError
from mercato.testing.double import Double
from mercato.testing.journal import VALID, Seen, line_of


class Watching:
    """A double on the screen. `facts` are shown at the start, by name."""

    def __init__(self, double: Double, *, log: Path | None, as_json: bool) -> None:
        self.double = double
        self.facts: list[tuple[str, object]] = []
        self._as_json = as_json
        self._log = None if log is None else _opened(log)
        self._lines: asyncio.Queue[Seen | str] = asyncio.Queue()
        double.journal.tell(self._lines.put_nowait)

    def say(self, words: str) -> None:
        """Show a sentence, among the lines."""
        self._lines.put_nowait(words)

    def begin(self) -> None:
        """Show where it is and what to do with it."""
        if self._as_json:
            print(f"{self.double.title} on {self.double.url}", file=sys.stderr, flush=True)
            return
        _show(f"{self.double.title} on {self.double.url}")
        _show("That is a page; /log has the same as JSON. Ctrl-C ends it.")
        facts = [*self.facts, *self.double.addresses()]
        wide = max(len(name) for name, _ in facts)
        for name, value in facts:
            # Whole, because it is copied.
            _show(f"  {name:<{wide}}  {value}")
        _show("")

    async def show(self) -> None:
        """Show what comes, until cancelled."""
        while True:
            self._write(await self._lines.get())

    def end(self) -> None:
        """Show what it came to."""
        told = ", ".join(f"{name} {value}" for name, value in self.double.facts())
        print(f"Ended. {count_of(self.double.journal.count, 'call')}; {told}.", file=sys.stderr)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def rest(self) -> None:
        """Show what has come and is not shown yet."""
        while not self._lines.empty():
            self._write(self._lines.get_nowait())

    def _write(self, one: Seen | str) -> None:
        if isinstance(one, str):
            for words in folded(one, first="-- ", indent="   "):
                print(words, file=sys.stderr if self._as_json else sys.stdout, flush=True)
            return
        if self._log is not None:
            self._log.write(line_of(one) + "\n")
            self._log.flush()
        _show(line_of(one) if self._as_json else cut(line(one), width()))


def run_watching(watching: Watching, work: Coroutine[Any, Any, int] | None = None) -> int:
    """Run the double, and the work beside it, and return the exit code: 0 when it was asked to end."""
    try:
        return asyncio.run(_run(watching, work))
    except ServiceError as error:
        for told in folded(str(error)):
            print(told, file=sys.stderr)
        return FAILED
    finally:
        if work is not None:
            work.close()
        watching.close()


async def _run(watching: Watching, work: Coroutine[Any, Any, int] | None) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as held:
        try:
            await held.enter_async_context(watching.double)
        except (OSError, UnicodeError) as error:
            raise cannot_listen(error, *watching.double.asked) from None
        watching.begin()
        asked = asyncio.create_task(stop.wait())
        showing = asyncio.create_task(watching.show())
        working = None if work is None else asyncio.create_task(work)
        tasks = [task for task in (asked, showing, working) if task is not None]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if showing not in done:
            watching.rest()
        for task in done:
            _raise(task)
        watching.end()
        return working.result() if working is not None and working in done else 0


def _opened(file: Path) -> TextIO:
    """Return the log, open until the command ends. Raises UnusableError."""
    try:
        return file.open("a", encoding="utf-8")
    except OSError as error:
        raise UnusableError(f"--log {file} cannot be written: {error.strerror}.") from None


def _raise(task: "asyncio.Task[Any]") -> None:
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error


def line(one: Seen) -> str:
    """Return a call in one line: when, what, the answer, whether its signature is good, and what it was about."""
    status = str(one.status) if one.status else "---"
    verdict = {None: "", VALID: "signed "}.get(one.verdict, f"REFUSED: {one.verdict} ")
    act = "" if one.act == "accept" else f" <{one.act}>"
    return harmless(f"{one.at[11:19]}  {one.operation:<15}  {status}  {verdict}{_about(one)}{act}")


def _about(one: Seen) -> str:
    """Return what it is about, in a few words."""
    said = one.answer if isinstance(one.answer, dict) else {}
    order = said.get("order") or said
    errors = order.get("errors") or said.get("errors") or ()
    if errors or "errorCode" in said:
        return ", ".join(error["code"] for error in errors) or str(said["errorCode"])
    if order.get("partnerOrderId"):
        return " ".join(str(order[name]) for name in ("partnerOrderId", "state", "status") if name in order)
    if "amounts" in order:
        return f"total {order['amounts'].get('total')}"
    return _event(one) if one.operation == "event" else one.path if one.verdict is None else ""


def _event(one: Seen) -> str:
    """Return what an event says."""
    try:
        event = one.json()
        order = event["data"]["order"]
        return f"{event['type']} {event['data']['sequence']}: {order['state']} {order['status']}"
    except (ValueError, KeyError, TypeError):
        return ""


def _show(text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)
