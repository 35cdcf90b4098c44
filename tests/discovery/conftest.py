import pytest
from tests.discovery.shelf import Shelf

from mercato.kernel.db.engine import Database


@pytest.fixture
def shelf(db: Database) -> Shelf:
    return Shelf(db)
