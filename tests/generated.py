"""How many generated examples a property is tried with: other ones in each run.

`make test` tries a quarter, `make test-long` all.
"""

import os
from typing import Final

ALL: Final = "MERCATO_TEST_EXAMPLES"
"""The variable with which everything is tried. Workers of xdist inherit it."""

RUN: Final = int(os.environ.get("PYTEST_XDIST_TESTRUNUID", "0"), 16)
"""A number that all workers of a run have, and another in each run: an exploration tries another share then."""


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries."""
    return number if ALL in os.environ else max(number // 4, 10)
