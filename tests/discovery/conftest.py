import pytest
from tests.discovery.store_index import StoreIndex

from mercato.kernel.db.engine import Database


@pytest.fixture
def index(db: Database) -> StoreIndex:
    return StoreIndex(db)
