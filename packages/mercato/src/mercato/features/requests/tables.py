"""Requests that were refused."""

from sqlalchemy import Column, Index, Integer, Table, Text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

# No foreign keys: rows are kept for days, and deleted with their partner.
refused_requests = Table(
    "refused_requests",
    metadata,
    # UUIDv7 of the instant, so that the order of the ids is the order of the requests.
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    # The client's own id, if it sent one: not unique.
    Column("request_id", Text, nullable=False),
    # NULL without a valid key.
    Column("partner_id", Id),
    Column("key_id", Id),
    Column("surface", Text),
    # NULL if there is no such path.
    Column("operation", Text),
    Column("method", Text, nullable=False),
    # Without its query.
    Column("path", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("error_code", Text, nullable=False),
    # A JSON array of code, message and pointer.
    Column("errors", Text, nullable=False),
    # The store that the request names.
    Column("store_id", Id),
    Column("milliseconds", Integer, nullable=False),
    # The answer's, in this service's words; NULL if it was a store's.
    Column("detail", Text),
    sqlite_with_rowid=False,
)
_c = refused_requests.c
Index("ix_refused_requests_partner_id", _c.partner_id, _c.surface, _c.id)
Index("ix_refused_requests_partner_code", _c.partner_id, _c.surface, _c.error_code, _c.id)
Index("ix_refused_requests_partner_store", _c.partner_id, _c.surface, _c.store_id, _c.id)
Index("ix_refused_requests_error_code", _c.error_code, _c.id)
Index("ix_refused_requests_store_id", _c.store_id, _c.id)
Index("ix_refused_requests_request_id", _c.request_id, _c.id)
