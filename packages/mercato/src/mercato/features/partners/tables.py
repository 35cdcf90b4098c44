"""Partners, their API keys and their secrets."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant, id_end

partners = Table(
    "partners",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("limits", Text, nullable=False),
    Column("event_url", Text),
    Column("created_at", Instant, nullable=False),
    # Since when its keys are refused and its stores are hidden.
    Column("suspended_at", Instant),
)
partners_one_for_each_name = Index("uq_partners_name", partners.c.name, unique=True)
Index("ix_partners_id_end", id_end(partners.c.id))

# The bearer tokens of our webhooks to a partner's stores, each sealed and for one origin. One stored without an origin
# has an empty one and isn't sent.
webhook_tokens = Table(
    "webhook_tokens",
    metadata,
    Column("partner_id", Id, ForeignKey("partners.id"), primary_key=True),
    Column("origin", Text, primary_key=True),
    Column("token", LargeBinary, nullable=False),
)

# Bytes that a partner has stored in a day (its ordinal number, in UTC): see `partners.storage`.
stored_bytes = Table(
    "stored_bytes",
    metadata,
    Column("partner_id", Id, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("bytes", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, ForeignKey("partners.id"), nullable=False),
    Column("surface", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    # SHA-256 of the key; the key itself isn't stored.
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("description", Text),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    # The key whose console session made it; null when an operator did.
    Column("parent_key_id", Id),
    # What its expiry, and that of the keys that replace it, never exceeds: the expiry that its parent had.
    Column("latest_expiry", Instant),
    # The agent that it is a key of; those that replace it are its agent's, too.
    Column("agent_id", Id),
)
Index("ix_api_keys_partner_id", api_keys.c.partner_id, api_keys.c.id)
Index("ix_api_keys_prefix", api_keys.c.prefix)

# Storefronts' agents and their limits, in minor units of the currency; without one they have none. They never change.
agents = Table(
    "agents",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, ForeignKey("partners.id"), nullable=False),
    Column("name", Text, nullable=False),
    # Its newest key.
    Column("key_id", Id, nullable=False),
    Column("currency", Text),
    Column("maximum_order", BigInteger),
    Column("maximum_day", BigInteger),
    # Which orders a person approves: never, above, or always; and above what.
    Column("approval", Text, nullable=False),
    Column("approval_above", BigInteger),
    # In which its days begin.
    Column("timezone", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
)
Index("ix_agents_partner_id", agents.c.partner_id, agents.c.id)

# What an agent's orders of a day (its ordinal number, in the agent's time zone) cost, less those that were cancelled.
agent_spending = Table(
    "agent_spending",
    metadata,
    Column("agent_id", Id, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("spent", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# At most two per partner: the current one and, during a rotation, the previous one.
signing_secrets = Table(
    "signing_secrets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, ForeignKey("partners.id"), nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
)
Index("ix_signing_secrets_partner_id", signing_secrets.c.partner_id)

# One row: a text that is sealed with the key of the database's processes. It says which one that is before there are
# secrets.
key_checks = Table(
    "key_checks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)

# The addresses that a partner registers for events. Its event URL and its stores' webhook URLs aren't among them.
webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    Column("surface", Text, nullable=False),
    Column("url", Text, nullable=False),
    # JSON lists; null is all.
    Column("types", Text),
    Column("store_ids", Text),
    Column("description", Text),
    Column("enabled", Boolean, nullable=False),
    # Its signing secrets and the values of its headers, sealed together.
    Column("credentials", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
webhook_endpoints_one_for_each_url = Index(
    "uq_webhook_endpoints_url",
    webhook_endpoints.c.partner_id,
    webhook_endpoints.c.surface,
    webhook_endpoints.c.url,
    unique=True,
)
