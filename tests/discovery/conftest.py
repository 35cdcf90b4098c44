import pytest
from tests.discovery.store_index import StoreIndex

from mercato.platform.db.engine import Database


@pytest.fixture
def index(db: Database) -> StoreIndex:
    return StoreIndex(db)
