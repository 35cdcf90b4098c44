"""The output of a simulated partner: one line per call, as text or JSON, until Ctrl-C or the end of the work."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TextIO

from mercato.cli import FAILED, UnusableError
from mercato.cli.failures import cannot_listen
from mercato.cli.output import note, sanitize, truncate, width, wrap
from mercato.platform.texts import count_of
from mercato_client.testing.caller import ServiceError
from mercato_client.testing.double import Double
from mercato_client.testing.journal import VALID, Seen, line_of


class Screen:
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
                raise cannot_listen(error, *self._double.asked) from None
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
    return sanitize(f"{call.at[11:19]}  {call.operation:<15}  {status}  {verdict}{_subject(call)}{act}")


def _subject(call: Seen) -> str:
    """Return the call's subject in a few words."""
    answer = call.answer if isinstance(call.answer, dict) else {}
    order = answer.get("order") or answer
    errors = order.get("errors") or answer.get("errors") or ()
    if errors or "errorCode" in answer:
        return ", ".join(error["code"] for error in errors) or str(answer["errorCode"])
    if order.get("partnerOrderId"):
        return " ".join(str(order[name]) for name in ("partnerOrderId", "state", "status") if name in order)
    if "amounts" in order:
        return f"total {order['amounts'].get('total')}"
    return _event(call) if call.operation == "event" else call.path if call.verdict is None else ""


def _event(call: Seen) -> str:
    try:
        event = call.json()
        order = event["data"]["order"]
        return f"{event['type']} {event['data']['sequence']}: {order['state']} {order['status']}"
    except (ValueError, KeyError, TypeError):
        return ""
