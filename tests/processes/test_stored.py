"""An order's whole life stores at most three and a half times the bytes of its request.

`make test-long` runs it; `python -m benchmarks.stored` prints its tables, which are in docs/scaling.md.
"""

import pytest
from benchmarks.stored import measure

MOST = 3.5


@pytest.mark.long
def test_an_order_stores_at_most_three_and_a_half_times_its_request():
    ratios = {measured.kind: measured.ratio for measured in measure()}
    assert len(ratios) == 2
    assert max(ratios.values()) <= MOST, ratios
