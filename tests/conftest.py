"""What every test may ask for."""

import gc

pytest_plugins = ["tests.databases"]


def pytest_collection_finish() -> None:
    # Thousands of collected tests stay for the whole run: the garbage collector need not look at them each time.
    gc.collect()
    gc.freeze()
