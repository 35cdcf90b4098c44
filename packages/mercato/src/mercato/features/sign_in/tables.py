"""Sign-in to the console: one-time links and passkeys, and the sessions that they begin."""

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, Table, Text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant

# Whose account a link or a session opens: a partner's, or without one the operator's. No foreign keys: both end with
# the partner and the key, which every use of them looks up.
console_links = Table(
    "console_links",
    metadata,
    Column("id", Id, primary_key=True),
    # SHA-256 of the token; the token itself is nowhere.
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("partner_id", Id),
    # The key that made it; null when a command did.
    Column("key_id", Id),
    # The only store that is shown.
    Column("store_id", Id),
    Column("read_only", Boolean, nullable=False),
    # Who made it, as the audit trail names actors.
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("used_at", Instant),
)
Index("ix_console_links_expires_at", console_links.c.expires_at)

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("partner_id", Id),
    Column("key_id", Id),
    Column("store_id", Id),
    Column("read_only", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    # The last use, to a few minutes.
    Column("used_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
Index("ix_console_sessions_partner_id", console_sessions.c.partner_id, console_sessions.c.id)
Index("ix_console_sessions_expires_at", console_sessions.c.expires_at)

# Those of operators; partners have links.
console_passkeys = Table(
    "console_passkeys",
    metadata,
    Column("id", Id, primary_key=True),
    # As the authenticator names it.
    Column("credential_id", LargeBinary, nullable=False, unique=True),
    # COSE
    Column("public_key", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("used_at", Instant),
    # The site that it was added on (WebAuthn's RP ID, and the origin); null for those added before these were stored.
    Column("rp_id", Text),
    Column("origin", Text),
)
