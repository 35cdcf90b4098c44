"""The services of one network, which operations, screens and commands use. `app` makes them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercato.features.catalogs.builder import Builder
from mercato.features.catalogs.dry_run import DryRuns
from mercato.features.catalogs.menu_files import MenuFiles
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.discovery.service import Discovery
from mercato.features.events.feed import Feeds
from mercato.features.events.sequencer import Sequencer
from mercato.features.metrics import Activity, CommerceMetrics
from mercato.features.orders.cancellation import Cancellations
from mercato.features.orders.lifecycle import Lifecycle
from mercato.features.orders.operators import HourlyOrders
from mercato.features.orders.placement import Placements
from mercato.features.orders.reports import OrderReports
from mercato.features.orders.resubmission import Resubmissions
from mercato.features.orders.service import Adjustments, Orders
from mercato.features.orders.summaries import Summaries
from mercato.features.orders.validation import Validations
from mercato.features.partners import encryption
from mercato.features.partners.callers import Callers
from mercato.features.partners.limits import Failures, Limiter, Visitors
from mercato.features.partners.queries import StorageQuota
from mercato.features.partners.vault import Vault
from mercato.features.quotes.approvals import Approvals
from mercato.features.quotes.service import Quotes
from mercato.features.requests.log import RequestLog
from mercato.features.stores.cache import Menus, StoreCache
from mercato.features.stores.catalogs import CatalogBodies, MenuPlaces
from mercato.features.stores.menu_index import MenuIndexes
from mercato.features.stores.onboarding import Onboardings
from mercato.features.stores.service import Stores
from mercato.features.webhooks.endpoints import WebhookEndpoints
from mercato.features.webhooks.redelivery import Redeliveries
from mercato.features.webhooks.store_health import StoreHealth
from mercato.features.webhooks.validation_log import ValidationLog
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.health import WriteProbe
from mercato.platform.jobs import Worker
from mercato.platform.telemetry.logs import EventLog
from mercato.platform.telemetry.metrics import Traffic
from mercato.settings import Settings
from mercato_contract.clock import Clock, MakeId
from mercato_outbound.client import Outbound

if TYPE_CHECKING:
    # Imported if they are set: they need extras.
    from mercato.features.partners.shared_limits import SharedLimiter
    from mercato.features.sign_in.sign_on import SignOn


@dataclass(frozen=True)
class Core:
    """The parts that need no key and no network: what commands use, and what the other services are built on."""

    settings: Settings
    clock: Clock
    new_id: MakeId
    db: Database
    event_log: EventLog
    activity: Activity
    lifecycle: Lifecycle
    orders: Orders

    async def open_vault(self, tx: Read) -> Vault:
        """Return the vault of this database's processes. Raises VaultError if this one has another key."""
        return await encryption.open_vault(tx, self._keys(), self.settings.data_dir)

    async def bind_vault(self, tx: Write) -> Vault:
        """Do the same before something is sealed. From the commit on no other key opens the database."""
        return await encryption.bind_vault(tx, self._keys(), self.settings.data_dir)

    def _keys(self) -> str | None:
        keys = self.settings.encryption_keys
        return None if keys is None else keys.reveal()


@dataclass(frozen=True)
class Services(Core):
    """The parts that requests and jobs use."""

    metrics: CommerceMetrics
    feed: ChangeFeed
    vault: Vault
    callers: Callers
    limiter: Limiter | None
    shared_limiter: "SharedLimiter | None"
    quota: StorageQuota
    failures: Failures | None
    visitors: Visitors | None
    outbound: Outbound
    builder: Builder
    cache: StoreCache
    compiled: CompiledCatalogs
    bodies: CatalogBodies
    places: MenuPlaces
    menu_indexes: MenuIndexes
    menus: Menus
    onboardings: Onboardings
    stores: Stores
    discovery: Discovery
    dry_runs: DryRuns
    menu_files: MenuFiles
    validations: Validations
    placements: Placements
    cancellations: Cancellations
    resubmissions: Resubmissions
    adjustments: Adjustments
    quotes: Quotes
    approvals: Approvals
    worker: Worker
    write_probe: WriteProbe
    request_log: RequestLog
    validation_log: ValidationLog
    store_health: StoreHealth
    feeds: Feeds
    sequencer: Sequencer
    endpoints: WebhookEndpoints
    redeliveries: Redeliveries
    traffic: Traffic
    hourly_orders: HourlyOrders
    order_reports: OrderReports
    order_summaries: Summaries
    sign_on: "SignOn | None"
