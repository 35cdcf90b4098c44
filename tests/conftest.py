"""Fixtures of all tests."""

import gc
import os
import signal
import sys
import time
from typing import Final, NoReturn

from hypothesis import HealthCheck, settings
from tests.generated import examples
from tests.logs import log_plainly
from tests.loops import LoopbackLoop

# What is imported, and thousands of collected tests, stay for the whole run: the garbage collector need not walk them,
# again and again while they are imported and collected.
gc.disable()

pytest_plugins = ["tests.databases", "tests.sharing"]

DAY_SECONDS: Final = 24 * 60 * 60

LAST_SECONDS: Final = 30.0
"""Seconds before midnight UTC: a test of a day takes some, on a slow machine beside others."""


def pytest_configure() -> None:
    # Hypothesis bounds each example to 200 ms, which a busy machine exceeds now and then.
    settings.register_profile(
        "mercato",
        max_examples=examples(100),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("mercato")
    log_plainly()
    # A shell's background jobs ignore Ctrl-C, and every command that the tests start would inherit that. Python's own
    # handler would be exchanged for another and back by each run of the loop, of which a test has several.
    signal.signal(signal.SIGINT, interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # The same holds for a closed terminal under `nohup`: a signal handled here isn't ignored by child processes.
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Compiling the tests anew is two thirds of the time that each worker takes to collect them, and hundreds of
    # tests start a command, which compiles what has no bytecode.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The commands' output must not depend on the terminal of the tests.
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)


def interrupt(*_signal: object) -> NoReturn:
    raise KeyboardInterrupt


def pytest_asyncio_loop_factories() -> dict[str, type[LoopbackLoop]]:
    return {"uvloop": LoopbackLoop}


def pytest_runtest_setup() -> None:
    # Budgets, quotas and reports are of a day, which ends between two steps of a test once a day: none begins then.
    left = DAY_SECONDS - time.time() % DAY_SECONDS
    if left < LAST_SECONDS:
        time.sleep(left)


def pytest_collection_finish() -> None:
    gc.freeze()
    # Nor look for cycles after every seven hundred of the millions of objects that tests make.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
