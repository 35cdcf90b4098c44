"""Onboardings, the stores they become, and items that are sold out."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant, id_end

onboardings = Table(
    "onboardings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("store_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("timezone", Text, nullable=False),
    # Whether the merchant named the time zone; otherwise it follows the address.
    Column("timezone_given", Boolean, nullable=False),
    Column("catalog_callback_url", Text, nullable=False),
    Column("webhook_url", Text),
    Column("created_at", Instant, nullable=False),
    Column("activated_at", Instant),
    Column("cancelled_at", Instant),
    # Whether it reserves the partnerStoreId: from Register until it is cancelled, or replaced after a failure.
    Column("holds_name", Boolean, nullable=False),
    # A JSON array of the warnings about members of Register that are unknown; NULL if there were none.
    Column("unknown_members", Text),
    # `webhook`, `automatic` or `manual`; NULL until the merchant chooses.
    Column("order_handling", Text),
    # Minutes within which a person accepts an order; NULL is the default.
    Column("accept_within", Integer),
)
Index("ix_onboardings_partner_id", onboardings.c.partner_id, onboardings.c.id)
_holding = text("holds_name")
onboardings_one_for_each_name = Index(
    "uq_onboardings_partner_store_id",
    onboardings.c.partner_id,
    onboardings.c.partner_store_id,
    unique=True,
    sqlite_where=_holding,
    postgresql_where=_holding,
)

stores = Table(
    "stores",
    metadata,
    Column("id", Id, primary_key=True),
    Column("onboarding_id", Id, nullable=False, unique=True),
    Column("partner_id", Id, nullable=False),
    Column("partner_store_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("latitude", Double),
    Column("longitude", Double),
    Column("phone", Text),
    Column("timezone", Text, nullable=False),
    # Whether the merchant named the time zone; otherwise it follows the address.
    Column("timezone_given", Boolean, nullable=False),
    Column("logo_url", Text),
    Column("description", Text),
    Column("webhook_url", Text),
    Column("categories", Text, nullable=False),
    Column("delivery_allowed", Boolean, nullable=False),
    Column("pickup_allowed", Boolean, nullable=False),
    # Minor units of the currency below: a later catalog in another currency must not change its meaning.
    Column("minimum_order_amount", BigInteger),
    Column("minimum_order_currency", Text),
    Column("paused", Boolean, nullable=False),
    Column("pause_reason", Text),
    Column("resume_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # Incremented with everything that orders are checked against: this row, the current set, sold-out items.
    Column("version", Integer, nullable=False),
    # The same about its last Update Store; until then, about Register.
    Column("unknown_members", Text),
    # The two of its registration.
    Column("order_handling", Text),
    Column("accept_within", Integer),
    # Its taxes and fees, as `StoredCharges`; NULL if there are none.
    Column("charges", Text),
)
Index("ix_stores_partner_id", stores.c.partner_id, stores.c.id)
Index("ix_stores_id_end", id_end(stores.c.id))
# For operators, who look for the few that are paused. SQLite wants a query to repeat this condition word for word.
for _name, _columns in (
    ("ix_stores_paused", [stores.c.id]),
    ("ix_stores_paused_of_partner", [stores.c.partner_id, stores.c.id]),
):
    Index(_name, *_columns, sqlite_where=text("paused = 1"), postgresql_where=text("paused"))
# For operators, who look for a store by the id that its merchant gives it.
Index("ix_stores_own_id", stores.c.partner_store_id)
Index("ix_stores_partner_store_id", stores.c.partner_id, stores.c.partner_store_id)

sold_out_items = Table(
    "sold_out_items",
    metadata,
    Column("store_id", Id, primary_key=True),
    Column("item_id", Id, primary_key=True),
    Column("until", Instant),
)

registrations = Table(
    "store_registrations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("partner_id", Id, nullable=False),
    # A JSON object: by each step of the form that was sent, its fields as they were typed.
    Column("steps", Text, nullable=False),
    # What was read of the menu, as JSON, and its CatalogSet, compressed; NULL until there is one.
    Column("menu", Text),
    Column("document", LargeBinary),
    # The onboarding that was made of it; it goes when that is activated.
    Column("onboarding_id", Id),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
Index("ix_store_registrations_partner_id", registrations.c.partner_id, registrations.c.id)
# For its onboarding, which deletes it.
Index("ix_store_registrations_onboarding_id", registrations.c.onboarding_id)
