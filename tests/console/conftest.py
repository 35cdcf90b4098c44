"""The clock of the console's service."""

import pytest
from tests.api.trade import Time


@pytest.fixture
def clock_ahead() -> Time:
    """The service's clock, which a test can put forward."""
    return Time()


@pytest.fixture
def time(clock_ahead: Time) -> Time:
    return clock_ahead
