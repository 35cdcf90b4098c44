"""Every table of the service: one schema for SQLite and PostgreSQL, a module for each part of the domain."""

from mercato.platform.db.tables.base import metadata
from mercato.platform.db.tables.catalog import catalog_bodies, catalog_owners, catalog_runs, catalog_sets
from mercato.platform.db.tables.console import console_links, console_passkeys, console_sessions
from mercato.platform.db.tables.discovery import opening_hours, store_cards, store_search, store_words
from mercato.platform.db.tables.jobs import jobs, jobs_dedup, jobs_one_running_per_key
from mercato.platform.db.tables.orders import idempotency_keys, order_history, order_submissions, orders
from mercato.platform.db.tables.partners import (
    api_keys,
    certification_reports,
    partners,
    partners_one_for_each_name,
    signing_secrets,
    stored_bytes,
    webhook_tokens,
)
from mercato.platform.db.tables.requests import refused_requests
from mercato.platform.db.tables.stores import (
    onboardings,
    onboardings_one_for_each_name,
    sold_out_items,
    stores,
)
from mercato.platform.db.tables.system import audit, changes, write_probes
from mercato.platform.db.tables.webhooks import answered_validations, deliveries, delivery_attempts, endpoints

__all__ = [
    "answered_validations", "api_keys", "audit", "catalog_bodies", "catalog_owners", "catalog_runs", "catalog_sets",
    "certification_reports", "changes", "console_links", "console_passkeys", "console_sessions",
    "deliveries", "delivery_attempts", "endpoints", "idempotency_keys", "jobs", "jobs_dedup",
    "jobs_one_running_per_key", "metadata", "onboardings", "onboardings_one_for_each_name", "opening_hours",
    "order_history", "order_submissions", "orders", "partners", "partners_one_for_each_name",
    "refused_requests", "signing_secrets", "sold_out_items", "store_cards", "store_search", "store_words",
    "stored_bytes", "stores", "webhook_tokens", "write_probes",
]  # fmt: skip
