"""What every test may ask for."""

import gc
import signal

pytest_plugins = ["tests.databases"]


def pytest_configure() -> None:
    # Whoever starts the tests in a shell's background has them ignore Ctrl-C, and so would every command they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Thousands of collected tests stay for the whole run: the garbage collector need not look at them each time.
    gc.collect()
    gc.freeze()
