CREATE TABLE agent_spending (
  agent_id CHAR(32) NOT NULL,
  day INTEGER NOT NULL,
  currency TEXT NOT NULL,
  spent BIGINT NOT NULL,
  CONSTRAINT pk_agent_spending PRIMARY KEY (agent_id, day, currency)
)
 WITHOUT ROWID;

CREATE TABLE answered_validations (
  delivery_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  accepted BOOLEAN NOT NULL,
  CONSTRAINT pk_answered_validations PRIMARY KEY (delivery_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_answered_validations_partner_id ON answered_validations (partner_id, accepted, delivery_id);

CREATE TABLE audit (
  id CHAR(32) NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  surface TEXT,
  partner_id CHAR(32),
  action TEXT NOT NULL,
  subject_type TEXT NOT NULL,
  subject_id TEXT,
  request_id TEXT,
  detail TEXT NOT NULL,
  CONSTRAINT pk_audit PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX ix_audit_action ON audit (action, id);

CREATE INDEX ix_audit_partner_id ON audit (partner_id, id);

CREATE TABLE catalog_bodies (
  set_id CHAR(32) NOT NULL,
  coding TEXT NOT NULL,
  body BLOB NOT NULL,
  CONSTRAINT pk_catalog_bodies PRIMARY KEY (set_id, coding)
);

CREATE TABLE catalog_owners (
  id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  current_set_id CHAR(32),
  closed_at BIGINT,
  CONSTRAINT pk_catalog_owners PRIMARY KEY (id),
  CONSTRAINT uq_catalog_owners_store_id UNIQUE (store_id)
);

CREATE TABLE catalog_periods (
  id CHAR(32) NOT NULL,
  owner_id CHAR(32) NOT NULL,
  set_id CHAR(32) NOT NULL,
  run_id CHAR(32),
  rolled_back_from CHAR(32),
  activated_at BIGINT NOT NULL,
  superseded_at BIGINT NOT NULL,
  CONSTRAINT pk_catalog_periods PRIMARY KEY (id)
);

CREATE INDEX ix_catalog_periods_owner_id ON catalog_periods (owner_id, id);

CREATE INDEX ix_catalog_periods_superseded_at ON catalog_periods (superseded_at);

CREATE TABLE catalog_runs (
  id CHAR(32) NOT NULL,
  owner_id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  notified BOOLEAN NOT NULL,
  callback_url TEXT NOT NULL,
  status TEXT NOT NULL,
  errors TEXT NOT NULL,
  warnings TEXT NOT NULL,
  excerpts BLOB,
  set_id CHAR(32),
  traceparent TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  activate_at BIGINT,
  CONSTRAINT pk_catalog_runs PRIMARY KEY (id)
);

CREATE INDEX ix_catalog_runs_failed ON catalog_runs (partner_id, id) WHERE status = 'failed';

CREATE INDEX ix_catalog_runs_id_end ON catalog_runs (substr(id, 25));

CREATE INDEX ix_catalog_runs_owner_id ON catalog_runs (owner_id, id);

CREATE INDEX ix_catalog_runs_partner_id ON catalog_runs (partner_id, id);

CREATE INDEX ix_catalog_runs_updated_at ON catalog_runs (updated_at);

CREATE TABLE catalog_sets (
  id CHAR(32) NOT NULL,
  owner_id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  content_hash TEXT NOT NULL,
  currency TEXT NOT NULL,
  summary TEXT NOT NULL,
  source_url TEXT NOT NULL,
  source_etag TEXT,
  created_at BIGINT NOT NULL,
  superseded_at BIGINT,
  run_id CHAR(32),
  period_id CHAR(32),
  activated_at BIGINT,
  rolled_back_from CHAR(32),
  needed_until BIGINT,
  CONSTRAINT pk_catalog_sets PRIMARY KEY (id)
);

CREATE INDEX ix_catalog_sets_owner_id ON catalog_sets (owner_id);

CREATE INDEX ix_catalog_sets_superseded_at ON catalog_sets (superseded_at) WHERE superseded_at IS NOT NULL;

CREATE TABLE catalog_uploads (
  run_id CHAR(32) NOT NULL,
  place INTEGER NOT NULL,
  partner_id CHAR(32) NOT NULL,
  size INTEGER NOT NULL,
  body BLOB NOT NULL,
  CONSTRAINT pk_catalog_uploads PRIMARY KEY (run_id, place)
);

CREATE INDEX ix_catalog_uploads_partner_id ON catalog_uploads (partner_id);

CREATE TABLE certification_reports (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  passed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  trusted BOOLEAN NOT NULL,
  report TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_certification_reports PRIMARY KEY (id)
);

CREATE INDEX ix_certification_reports_partner_id ON certification_reports (partner_id, id);

CREATE TABLE changes (
  seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  topic TEXT NOT NULL,
  "key" TEXT NOT NULL,
  at BIGINT NOT NULL
);

CREATE TABLE console_links (
  id CHAR(32) NOT NULL,
  hash BLOB NOT NULL,
  partner_id CHAR(32),
  key_id CHAR(32),
  store_id CHAR(32),
  read_only BOOLEAN NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  CONSTRAINT pk_console_links PRIMARY KEY (id),
  CONSTRAINT uq_console_links_hash UNIQUE (hash)
);

CREATE INDEX ix_console_links_expires_at ON console_links (expires_at);

CREATE TABLE console_passkeys (
  id CHAR(32) NOT NULL,
  credential_id BLOB NOT NULL,
  public_key BLOB NOT NULL,
  sign_count BIGINT NOT NULL,
  name TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  used_at BIGINT,
  rp_id TEXT,
  origin TEXT,
  CONSTRAINT pk_console_passkeys PRIMARY KEY (id),
  CONSTRAINT uq_console_passkeys_credential_id UNIQUE (credential_id)
);

CREATE TABLE console_people (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32),
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  key_id CHAR(32),
  invitation_hash BLOB NOT NULL,
  invitation_expires_at BIGINT NOT NULL,
  joined_at BIGINT,
  CONSTRAINT pk_console_people PRIMARY KEY (id),
  CONSTRAINT uq_console_people_invitation_hash UNIQUE (invitation_hash)
);

CREATE UNIQUE INDEX uq_console_people_name ON console_people (name) WHERE partner_id IS NULL;

CREATE UNIQUE INDEX uq_console_people_partner_id ON console_people (partner_id, name);

CREATE TABLE console_person_passkeys (
  id CHAR(32) NOT NULL,
  person_id CHAR(32) NOT NULL,
  partner_id CHAR(32),
  credential_id BLOB NOT NULL,
  public_key BLOB NOT NULL,
  sign_count BIGINT NOT NULL,
  name TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  used_at BIGINT,
  rp_id TEXT NOT NULL,
  origin TEXT NOT NULL,
  CONSTRAINT pk_console_person_passkeys PRIMARY KEY (id),
  CONSTRAINT uq_console_person_passkeys_credential_id UNIQUE (credential_id)
);

CREATE INDEX ix_console_person_passkeys_partner_id ON console_person_passkeys (partner_id);

CREATE INDEX ix_console_person_passkeys_person_id ON console_person_passkeys (person_id);

CREATE TABLE console_sessions (
  id CHAR(32) NOT NULL,
  hash BLOB NOT NULL,
  partner_id CHAR(32),
  key_id CHAR(32),
  store_id CHAR(32),
  read_only BOOLEAN NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  used_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  person_id CHAR(32),
  CONSTRAINT pk_console_sessions PRIMARY KEY (id),
  CONSTRAINT uq_console_sessions_hash UNIQUE (hash)
);

CREATE INDEX ix_console_sessions_expires_at ON console_sessions (expires_at);

CREATE INDEX ix_console_sessions_partner_id ON console_sessions (partner_id, id);

CREATE TABLE deliveries (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  store_id CHAR(32),
  order_id CHAR(32),
  type TEXT NOT NULL,
  webhook_id CHAR(32) NOT NULL,
  url TEXT NOT NULL,
  body BLOB NOT NULL,
  traceparent TEXT NOT NULL,
  partition INTEGER NOT NULL,
  status TEXT NOT NULL,
  error TEXT,
  attempts INTEGER NOT NULL,
  round INTEGER NOT NULL,
  attempts_before_round INTEGER NOT NULL,
  next_attempt_at BIGINT,
  due_at BIGINT,
  job_id BIGINT,
  faults INTEGER DEFAULT 0 NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  give_up_at BIGINT,
  payment BLOB,
  endpoint_id CHAR(32),
  CONSTRAINT pk_deliveries PRIMARY KEY (id)
);

CREATE INDEX ix_deliveries_due ON deliveries (partner_id, url, partition, due_at, job_id) WHERE due_at IS NOT NULL;

CREATE INDEX ix_deliveries_id_end ON deliveries (substr(id, 25));

CREATE INDEX ix_deliveries_not_delivered ON deliveries (partner_id, surface, status, id) WHERE status <> 'succeeded';

CREATE INDEX ix_deliveries_order_id ON deliveries (order_id, partner_id, surface, id) WHERE order_id IS NOT NULL;

CREATE INDEX ix_deliveries_partner_id ON deliveries (partner_id, surface, id);

CREATE INDEX ix_deliveries_store_id ON deliveries (partner_id, surface, store_id, id);

CREATE INDEX ix_deliveries_unanswered ON deliveries (created_at) WHERE give_up_at IS NOT NULL;

CREATE TABLE delivery_attempts (
  delivery_id CHAR(32) NOT NULL,
  number INTEGER NOT NULL,
  at BIGINT NOT NULL,
  status INTEGER,
  ms INTEGER NOT NULL,
  error TEXT,
  reply TEXT,
  warning TEXT,
  CONSTRAINT pk_delivery_attempts PRIMARY KEY (delivery_id, number)
)
 WITHOUT ROWID;

CREATE TABLE endpoints (
  partner_id CHAR(32) NOT NULL,
  url TEXT NOT NULL,
  failing_since BIGINT NOT NULL,
  disabled_at BIGINT,
  disabled_reason TEXT,
  CONSTRAINT pk_endpoints PRIMARY KEY (partner_id, url)
);

CREATE TABLE event_positions (
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  position BIGINT NOT NULL,
  event_id CHAR(32) NOT NULL,
  store_id CHAR(32),
  store_sequence INTEGER,
  at BIGINT NOT NULL,
  CONSTRAINT pk_event_positions PRIMARY KEY (partner_id, surface, position)
)
 WITHOUT ROWID;

CREATE INDEX ix_event_positions_position ON event_positions (position);

CREATE TABLE events (
  id CHAR(32) NOT NULL,
  type TEXT NOT NULL,
  order_id CHAR(32),
  body BLOB NOT NULL,
  CONSTRAINT pk_events PRIMARY KEY (id)
);

CREATE INDEX ix_events_order_id ON events (order_id) WHERE order_id IS NOT NULL;

CREATE TABLE failing_partners (
  partner_id CHAR(32) NOT NULL,
  since BIGINT NOT NULL,
  CONSTRAINT pk_failing_partners PRIMARY KEY (partner_id)
);

CREATE TABLE failing_stores (
  store_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  failing_since BIGINT NOT NULL,
  failed_at BIGINT NOT NULL,
  calls INTEGER NOT NULL,
  error TEXT,
  CONSTRAINT pk_failing_stores PRIMARY KEY (store_id)
);

CREATE INDEX ix_failing_stores_partner_id ON failing_stores (partner_id);

CREATE TABLE idempotency_keys (
  partner_id CHAR(32) NOT NULL,
  "key" TEXT NOT NULL,
  request BLOB NOT NULL,
  order_id CHAR(32),
  claimed_until BIGINT NOT NULL,
  claims INTEGER NOT NULL,
  status INTEGER,
  media_type TEXT,
  body BLOB,
  created_at BIGINT NOT NULL,
  meaning BLOB,
  CONSTRAINT pk_idempotency_keys PRIMARY KEY (partner_id, "key")
);

CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);

CREATE TABLE jobs (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  ordering_key TEXT NOT NULL,
  group_key TEXT NOT NULL,
  dedup TEXT,
  payload TEXT NOT NULL,
  state TEXT NOT NULL,
  run_at BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  attempt INTEGER DEFAULT 0 NOT NULL,
  failures INTEGER DEFAULT 0 NOT NULL,
  losses INTEGER DEFAULT 0 NOT NULL,
  worker TEXT,
  lease_until BIGINT,
  error TEXT
);

CREATE INDEX ix_jobs_dead ON jobs (run_at) WHERE state = 'dead';

CREATE INDEX ix_jobs_dead_kind ON jobs (kind, run_at) WHERE state = 'dead';

CREATE INDEX ix_jobs_ready ON jobs (kind, group_key, ordering_key, id) WHERE state = 'ready';

CREATE INDEX ix_jobs_running ON jobs (kind, group_key) WHERE state = 'running';

CREATE INDEX ix_jobs_waiting ON jobs (run_at) WHERE state = 'waiting';

CREATE INDEX ix_jobs_waiting_ordering_key ON jobs (ordering_key, id) WHERE state = 'waiting';

CREATE UNIQUE INDEX uq_jobs_dedup ON jobs (kind, dedup) WHERE dedup IS NOT NULL AND state <> 'dead';

CREATE UNIQUE INDEX uq_jobs_ordering_key_running ON jobs (ordering_key) WHERE state = 'running';

CREATE TABLE key_checks (
  id CHAR(32) NOT NULL,
  sealed BLOB NOT NULL,
  CONSTRAINT pk_key_checks PRIMARY KEY (id)
);

CREATE TABLE new_events (
  number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  event_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  store_id CHAR(32),
  traceparent TEXT
);

CREATE TABLE new_store_changes (
  number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  store_id CHAR(32) NOT NULL,
  kinds TEXT NOT NULL,
  at BIGINT NOT NULL
);

CREATE TABLE onboardings (
  id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  partner_store_id TEXT NOT NULL,
  name TEXT NOT NULL,
  address TEXT NOT NULL,
  latitude DOUBLE,
  longitude DOUBLE,
  timezone TEXT NOT NULL,
  timezone_given BOOLEAN NOT NULL,
  catalog_callback_url TEXT NOT NULL,
  webhook_url TEXT,
  created_at BIGINT NOT NULL,
  activated_at BIGINT,
  cancelled_at BIGINT,
  holds_name BOOLEAN NOT NULL,
  unknown_members TEXT,
  order_handling TEXT,
  accept_within INTEGER,
  CONSTRAINT pk_onboardings PRIMARY KEY (id),
  CONSTRAINT uq_onboardings_store_id UNIQUE (store_id)
);

CREATE INDEX ix_onboardings_partner_id ON onboardings (partner_id, id);

CREATE UNIQUE INDEX uq_onboardings_partner_store_id ON onboardings (partner_id, partner_store_id) WHERE holds_name;

CREATE TABLE opening_hours (
  "key" BIGINT NOT NULL,
  timezone TEXT NOT NULL,
  spans BLOB NOT NULL,
  stores INTEGER NOT NULL,
  pickup INTEGER NOT NULL,
  delivery INTEGER NOT NULL,
  CONSTRAINT pk_opening_hours PRIMARY KEY ("key")
);

CREATE TABLE order_history (
  order_id CHAR(32) NOT NULL,
  number INTEGER NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  type TEXT NOT NULL,
  detail TEXT NOT NULL,
  CONSTRAINT pk_order_history PRIMARY KEY (order_id, number)
)
 WITHOUT ROWID;

CREATE TABLE order_search (
  order_id CHAR(32) NOT NULL,
  kind TEXT NOT NULL,
  "key" BIGINT NOT NULL,
  CONSTRAINT pk_order_search PRIMARY KEY (order_id, kind)
)
 WITHOUT ROWID;

CREATE INDEX ix_order_search_key ON order_search ("key", order_id);

CREATE TABLE order_submissions (
  order_id CHAR(32) NOT NULL,
  url TEXT NOT NULL,
  body BLOB NOT NULL,
  give_up_at BIGINT NOT NULL,
  CONSTRAINT pk_order_submissions PRIMARY KEY (order_id)
);

CREATE TABLE orders (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  storefront_id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  partner_store_id TEXT NOT NULL,
  state TEXT NOT NULL,
  status TEXT NOT NULL,
  answer TEXT NOT NULL,
  errors TEXT NOT NULL,
  partner_order_id TEXT,
  estimated_ready_at BIGINT,
  cancel_reason TEXT,
  currency TEXT NOT NULL,
  total BIGINT NOT NULL,
  content BLOB NOT NULL,
  fulfillment TEXT NOT NULL,
  customer TEXT,
  client_context TEXT,
  token_id CHAR(32),
  sequence INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  traceparent TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  cancellation TEXT,
  notes TEXT,
  courier TEXT,
  estimated_delivery_at BIGINT,
  adjustments TEXT,
  handling TEXT,
  agent_id CHAR(32),
  agent_day INTEGER,
  sold TEXT,
  CONSTRAINT pk_orders PRIMARY KEY (id)
);

CREATE INDEX ix_orders_agent_id ON orders (agent_id, id) WHERE agent_id IS NOT NULL;

CREATE INDEX ix_orders_on_board ON orders (partner_id, id) WHERE handling IS NOT NULL AND state = 'open';

CREATE INDEX ix_orders_partner_id ON orders (partner_id, id);

CREATE INDEX ix_orders_partner_state ON orders (partner_id, state, id);

CREATE INDEX ix_orders_state ON orders (state, id);

CREATE INDEX ix_orders_store_id ON orders (store_id, id);

CREATE INDEX ix_orders_storefront_id ON orders (storefront_id, id);

CREATE INDEX ix_orders_storefront_state ON orders (storefront_id, state, id);

CREATE INDEX ix_orders_with_customer ON orders (created_at, id) WHERE client_context IS NOT NULL;

CREATE UNIQUE INDEX uq_orders_token_id ON orders (token_id) WHERE token_id IS NOT NULL;

CREATE TABLE partners (
  id CHAR(32) NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  limits TEXT NOT NULL,
  event_url TEXT,
  created_at BIGINT NOT NULL,
  suspended_at BIGINT,
  CONSTRAINT pk_partners PRIMARY KEY (id)
);

CREATE INDEX ix_partners_id_end ON partners (substr(id, 25));

CREATE UNIQUE INDEX uq_partners_name ON partners (name);

CREATE TABLE quotes (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  key_id CHAR(32) NOT NULL,
  store_id CHAR(32) NOT NULL,
  currency TEXT NOT NULL,
  total BIGINT NOT NULL,
  state TEXT NOT NULL,
  content BLOB,
  payment BLOB,
  approval BLOB,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_at BIGINT,
  order_id CHAR(32),
  CONSTRAINT pk_quotes PRIMARY KEY (id)
);

CREATE INDEX ix_quotes_created_at ON quotes (created_at);

CREATE INDEX ix_quotes_partner_id ON quotes (partner_id, id);

CREATE INDEX ix_quotes_with_content ON quotes (expires_at, id) WHERE content IS NOT NULL;

CREATE UNIQUE INDEX uq_quotes_approval ON quotes (approval) WHERE approval IS NOT NULL;

CREATE TABLE refused_requests (
  id CHAR(32) NOT NULL,
  at BIGINT NOT NULL,
  request_id TEXT NOT NULL,
  partner_id CHAR(32),
  key_id CHAR(32),
  surface TEXT,
  operation TEXT,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  status INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  errors TEXT NOT NULL,
  store_id CHAR(32),
  milliseconds INTEGER NOT NULL,
  detail TEXT,
  CONSTRAINT pk_refused_requests PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX ix_refused_requests_error_code ON refused_requests (error_code, id);

CREATE INDEX ix_refused_requests_partner_code ON refused_requests (partner_id, surface, error_code, id);

CREATE INDEX ix_refused_requests_partner_id ON refused_requests (partner_id, surface, id);

CREATE INDEX ix_refused_requests_partner_store ON refused_requests (partner_id, surface, store_id, id);

CREATE INDEX ix_refused_requests_request_id ON refused_requests (request_id, id);

CREATE INDEX ix_refused_requests_store_id ON refused_requests (store_id, id);

CREATE TABLE sequencer (
  id INTEGER NOT NULL,
  last BIGINT NOT NULL,
  events_deleted_to BIGINT NOT NULL,
  stores_deleted_to BIGINT NOT NULL,
  CONSTRAINT pk_sequencer PRIMARY KEY (id)
);

CREATE TABLE sold_out_items (
  store_id CHAR(32) NOT NULL,
  item_id CHAR(32) NOT NULL,
  until BIGINT,
  CONSTRAINT pk_sold_out_items PRIMARY KEY (store_id, item_id)
);

CREATE TABLE store_cards (
  number INTEGER NOT NULL,
  store_id CHAR(32) NOT NULL,
  card BLOB NOT NULL,
  version INTEGER DEFAULT '1' NOT NULL,
  CONSTRAINT pk_store_cards PRIMARY KEY (number)
);

CREATE INDEX ix_store_cards_version ON store_cards (version);

CREATE TABLE store_changes (
  store_id CHAR(32) NOT NULL,
  position BIGINT NOT NULL,
  at BIGINT NOT NULL,
  is_gone BOOLEAN NOT NULL,
  profile BIGINT NOT NULL,
  status BIGINT NOT NULL,
  catalog BIGINT NOT NULL,
  items BIGINT NOT NULL,
  CONSTRAINT pk_store_changes PRIMARY KEY (store_id)
);

CREATE UNIQUE INDEX uq_store_changes_position ON store_changes (position);

CREATE TABLE store_registrations (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  steps TEXT NOT NULL,
  menu TEXT,
  document BLOB,
  onboarding_id CHAR(32),
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_store_registrations PRIMARY KEY (id)
);

CREATE INDEX ix_store_registrations_onboarding_id ON store_registrations (onboarding_id);

CREATE INDEX ix_store_registrations_partner_id ON store_registrations (partner_id, id);

CREATE TABLE store_search (
  number INTEGER NOT NULL,
  store_id CHAR(32) NOT NULL,
  name_key TEXT NOT NULL,
  cell BIGINT,
  x DOUBLE,
  y DOUBLE,
  z DOUBLE,
  pickup BOOLEAN NOT NULL,
  delivery BOOLEAN NOT NULL,
  hours_key BIGINT NOT NULL,
  paused_until BIGINT NOT NULL,
  CONSTRAINT pk_store_search PRIMARY KEY (number),
  CONSTRAINT uq_store_search_store_id UNIQUE (store_id)
);

CREATE INDEX ix_store_search_cell ON store_search (cell, x, y, z, pickup, delivery, hours_key, paused_until, number);

CREATE INDEX ix_store_search_name_key ON store_search (name_key, number, pickup, delivery, hours_key, paused_until);

CREATE INDEX ix_store_search_paused ON store_search (hours_key, paused_until, pickup, delivery) WHERE paused_until > 0;

CREATE TABLE store_sequences (
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  store_id CHAR(32) NOT NULL,
  last INTEGER NOT NULL,
  CONSTRAINT pk_store_sequences PRIMARY KEY (partner_id, surface, store_id)
)
 WITHOUT ROWID;

CREATE TABLE stored_bytes (
  partner_id CHAR(32) NOT NULL,
  day INTEGER NOT NULL,
  bytes BIGINT NOT NULL,
  CONSTRAINT pk_stored_bytes PRIMARY KEY (partner_id, day)
)
 WITHOUT ROWID;

CREATE TABLE stores (
  id CHAR(32) NOT NULL,
  onboarding_id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  partner_store_id TEXT NOT NULL,
  name TEXT NOT NULL,
  address TEXT NOT NULL,
  latitude DOUBLE,
  longitude DOUBLE,
  phone TEXT,
  timezone TEXT NOT NULL,
  timezone_given BOOLEAN NOT NULL,
  logo_url TEXT,
  description TEXT,
  webhook_url TEXT,
  categories TEXT NOT NULL,
  delivery_allowed BOOLEAN NOT NULL,
  pickup_allowed BOOLEAN NOT NULL,
  minimum_order_amount BIGINT,
  minimum_order_currency TEXT,
  paused BOOLEAN NOT NULL,
  pause_reason TEXT,
  resume_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version INTEGER NOT NULL,
  unknown_members TEXT,
  order_handling TEXT,
  accept_within INTEGER,
  charges TEXT,
  CONSTRAINT pk_stores PRIMARY KEY (id),
  CONSTRAINT uq_stores_onboarding_id UNIQUE (onboarding_id)
);

CREATE INDEX ix_stores_id_end ON stores (substr(id, 25));

CREATE INDEX ix_stores_own_id ON stores (partner_store_id);

CREATE INDEX ix_stores_partner_id ON stores (partner_id, id);

CREATE INDEX ix_stores_partner_store_id ON stores (partner_id, partner_store_id);

CREATE INDEX ix_stores_paused ON stores (id) WHERE paused = 1;

CREATE INDEX ix_stores_paused_of_partner ON stores (partner_id, id) WHERE paused = 1;

CREATE TABLE webhook_endpoints (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  url TEXT NOT NULL,
  types TEXT,
  store_ids TEXT,
  description TEXT,
  enabled BOOLEAN NOT NULL,
  credentials BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_webhook_endpoints PRIMARY KEY (id)
);

CREATE UNIQUE INDEX uq_webhook_endpoints_url ON webhook_endpoints (partner_id, surface, url);

CREATE TABLE write_probes (
  id CHAR(32) NOT NULL,
  filler BLOB NOT NULL,
  CONSTRAINT pk_write_probes PRIMARY KEY (id)
);

CREATE TABLE agents (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  name TEXT NOT NULL,
  key_id CHAR(32) NOT NULL,
  currency TEXT,
  maximum_order BIGINT,
  maximum_day BIGINT,
  approval TEXT NOT NULL,
  approval_above BIGINT,
  timezone TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_agents PRIMARY KEY (id),
  CONSTRAINT fk_agents_partner_id FOREIGN KEY(partner_id) REFERENCES partners (id)
);

CREATE INDEX ix_agents_partner_id ON agents (partner_id, id);

CREATE TABLE api_keys (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  surface TEXT NOT NULL,
  prefix TEXT NOT NULL,
  hash BLOB NOT NULL,
  description TEXT,
  expires_at BIGINT,
  revoked_at BIGINT,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  parent_key_id CHAR(32),
  latest_expiry BIGINT,
  agent_id CHAR(32),
  CONSTRAINT pk_api_keys PRIMARY KEY (id),
  CONSTRAINT fk_api_keys_partner_id FOREIGN KEY(partner_id) REFERENCES partners (id),
  CONSTRAINT uq_api_keys_hash UNIQUE (hash)
);

CREATE INDEX ix_api_keys_partner_id ON api_keys (partner_id, id);

CREATE INDEX ix_api_keys_prefix ON api_keys (prefix);

CREATE TABLE signing_secrets (
  id CHAR(32) NOT NULL,
  partner_id CHAR(32) NOT NULL,
  secret BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  CONSTRAINT pk_signing_secrets PRIMARY KEY (id),
  CONSTRAINT fk_signing_secrets_partner_id FOREIGN KEY(partner_id) REFERENCES partners (id)
);

CREATE INDEX ix_signing_secrets_partner_id ON signing_secrets (partner_id);

CREATE TABLE webhook_tokens (
  partner_id CHAR(32) NOT NULL,
  origin TEXT NOT NULL,
  token BLOB NOT NULL,
  CONSTRAINT pk_webhook_tokens PRIMARY KEY (partner_id, origin),
  CONSTRAINT fk_webhook_tokens_partner_id FOREIGN KEY(partner_id) REFERENCES partners (id)
);

CREATE VIRTUAL TABLE store_words
        USING fts5(words, detail=none, columnsize=0, prefix='2 3', tokenize='ascii');

CREATE VIRTUAL TABLE store_words_vocabulary USING fts5vocab(store_words, instance);

CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO alembic_version VALUES ('0032');
