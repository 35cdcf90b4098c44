"""Sign-in to the console: one-time links, people and passkeys, and the sessions that they begin."""

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
    # Who signed in, where it was a person. `read_only` is true then: an earlier release knows no people and no roles.
    Column("person_id", Id),
)
Index("ix_console_sessions_partner_id", console_sessions.c.partner_id, console_sessions.c.id)
Index("ix_console_sessions_expires_at", console_sessions.c.expires_at)

# Those of the operator's account; a person's are below.
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

# The people of a partner, or without one of the operator. No foreign keys: every use of a session looks both up.
console_people = Table(
    "console_people",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    # Who invited the person, as the audit trail names actors.
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    # The key in whose session that was, or in the session of somebody who was invited with it.
    Column("key_id", Id),
    # SHA-256 of the token of the invitation.
    Column("invitation_hash", LargeBinary, nullable=False, unique=True),
    Column("invitation_expires_at", Instant, nullable=False),
    Column("joined_at", Instant),
)
Index("uq_console_people_partner_id", console_people.c.partner_id, console_people.c.name, unique=True)
Index(
    "uq_console_people_name",
    console_people.c.name,
    unique=True,
    sqlite_where=console_people.c.partner_id.is_(None),
    postgresql_where=console_people.c.partner_id.is_(None),
)

# Apart from `console_passkeys`, whose rows all open the operator's account to an earlier release.
console_person_passkeys = Table(
    "console_person_passkeys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("person_id", Id, nullable=False),
    Column("partner_id", Id),
    Column("credential_id", LargeBinary, nullable=False, unique=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("used_at", Instant),
    Column("rp_id", Text, nullable=False),
    Column("origin", Text, nullable=False),
)
Index("ix_console_person_passkeys_person_id", console_person_passkeys.c.person_id)
Index("ix_console_person_passkeys_partner_id", console_person_passkeys.c.partner_id)
