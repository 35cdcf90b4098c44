"""What every test may ask for."""

import gc
import os
import signal

pytest_plugins = ["tests.databases"]


def pytest_configure() -> None:
    # Whoever starts the tests in a shell's background has them ignore Ctrl-C, and so would every command they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Nor, under `nohup`, a closed terminal: what is handled here is not ignored by what is started.
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Nor is what the commands print a matter of the screen that the tests happen to run on.
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)


def pytest_collection_finish() -> None:
    # Thousands of collected tests stay for the whole run: the garbage collector need not look at them each time.
    gc.collect()
    gc.freeze()
