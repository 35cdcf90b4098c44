"""A running service, as the tests of its interface have it."""

from tests.api.conftest import pos

__all__ = ["pos"]
