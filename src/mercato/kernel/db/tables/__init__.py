"""Every table of the service: one schema for SQLite and PostgreSQL, a module for each part of the domain."""
# ruff: noqa: F403  # a second list of all names would become outdated

from mercato.kernel.db.tables.base import *
from mercato.kernel.db.tables.catalog import *
from mercato.kernel.db.tables.console import *
from mercato.kernel.db.tables.discovery import *
from mercato.kernel.db.tables.jobs import *
from mercato.kernel.db.tables.orders import *
from mercato.kernel.db.tables.partners import *
from mercato.kernel.db.tables.requests import *
from mercato.kernel.db.tables.stores import *
from mercato.kernel.db.tables.system import *
from mercato.kernel.db.tables.webhooks import *
