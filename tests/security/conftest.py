"""A running service, as the tests of its interface have it."""

from tests.api.conftest import mercato, pos, shop

__all__ = ["mercato", "pos", "shop"]
