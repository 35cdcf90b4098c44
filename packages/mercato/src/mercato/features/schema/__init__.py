"""The schema of the service: every table, the revisions that led to it, and no rule."""

from pathlib import Path
from typing import Final

from mercato.features.catalogs import tables as catalogs
from mercato.features.certification import tables as certification
from mercato.features.discovery import tables as discovery
from mercato.features.events import tables as events
from mercato.features.orders import tables as orders
from mercato.features.partners import tables as partners
from mercato.features.quotes import tables as quotes
from mercato.features.requests import tables as requests
from mercato.features.sign_in import tables as sign_in
from mercato.features.stores import tables as stores
from mercato.features.webhooks import tables as webhooks
from mercato.platform.db.schema import Schema

TABLES: Final = (
    catalogs,
    certification,
    discovery,
    events,
    orders,
    partners,
    quotes,
    requests,
    sign_in,
    stores,
    webhooks,
)
"""The modules that register the features' tables, beside those of the platform."""

_HERE: Final = Path(__file__).parent

# The names of the files say it, so that an up-to-date start doesn't import Alembic.
_HEAD: Final = max(path.name.partition("_")[0] for path in (_HERE / "versions").glob("[0-9]*.py"))

SCHEMA: Final = Schema(head=_HEAD, revisions=_HERE, undescribed=discovery.WORDS_COLUMN)
