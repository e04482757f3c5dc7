-- Contacts, events with their rules, workflows, tracked links, and the actions that wait for their time.

CREATE TABLE line_user (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenant,
    external_id  text NOT NULL CHECK (length(external_id) BETWEEN 1 AND 200),
    display_name text CHECK (length(display_name) <= 200),
    attributes   jsonb NOT NULL DEFAULT '{}',
    created_at   instant NOT NULL,
    updated_at   instant NOT NULL,
    deleted_at   instant,
    UNIQUE (tenant_id, id)
);
CREATE UNIQUE INDEX line_user_by_external_id ON line_user (tenant_id, external_id) WHERE deleted_at IS NULL;

-- Taken in once per key; what follows from one is recorded in the same transaction.
CREATE TABLE event (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenant,
    name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    line_user_id    bigint,
    data            jsonb NOT NULL DEFAULT '{}',
    idempotency_key text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    request_hash    bytea CHECK (length(request_hash) = 32),
    rule_ids        bigint[] NOT NULL DEFAULT '{}',  -- what came of it, told again under its key
    action_ids      bigint[] NOT NULL DEFAULT '{}',
    created_at      instant NOT NULL,
    FOREIGN KEY (tenant_id, line_user_id) REFERENCES line_user (tenant_id, id),
    CHECK (idempotency_key IS NULL OR request_hash IS NOT NULL)
);
CREATE UNIQUE INDEX an_event_is_taken_once ON event (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX event_by_age ON event (created_at, id);

CREATE TABLE trigger_rule (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenant,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    event      text NOT NULL CHECK (length(event) BETWEEN 1 AND 200),
    conditions jsonb NOT NULL DEFAULT '[]',
    actions    jsonb NOT NULL,
    enabled    boolean NOT NULL DEFAULT true,
    revision   bigint NOT NULL DEFAULT 1,
    created_at instant NOT NULL,
    updated_at instant NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE INDEX trigger_rule_of_event ON trigger_rule (tenant_id, event) WHERE enabled;

CREATE TABLE workflow (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenant,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    version    int NOT NULL DEFAULT 1,             -- that new executions start with
    created_at instant NOT NULL,
    updated_at instant NOT NULL,
    deleted_at instant,
    UNIQUE (tenant_id, id)
);
CREATE UNIQUE INDEX workflow_by_name ON workflow (tenant_id, name) WHERE deleted_at IS NULL;

-- Never changed: an execution finishes on the version it began with.
CREATE TABLE workflow_version (
    workflow_id bigint NOT NULL,
    version     int NOT NULL CHECK (version > 0),
    tenant_id   uuid NOT NULL,
    nodes       jsonb NOT NULL,
    created_at  instant NOT NULL,
    PRIMARY KEY (workflow_id, version),
    FOREIGN KEY (tenant_id, workflow_id) REFERENCES workflow (tenant_id, id)
);

-- What was given at the start, never updated. Where it stands is told by its scheduled actions alone.
CREATE TABLE workflow_execution (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id        uuid NOT NULL,
    workflow_id      bigint NOT NULL,
    workflow_version int NOT NULL,
    line_user_id     bigint,
    context          jsonb NOT NULL DEFAULT '{}',
    origin_key       text NOT NULL CHECK (length(origin_key) BETWEEN 1 AND 255),
    depth            smallint NOT NULL DEFAULT 0,
    started_at       instant NOT NULL,
    UNIQUE (tenant_id, id),
    CONSTRAINT an_execution_is_started_once UNIQUE (tenant_id, origin_key),
    FOREIGN KEY (tenant_id, workflow_id) REFERENCES workflow (tenant_id, id),
    FOREIGN KEY (workflow_id, workflow_version) REFERENCES workflow_version,
    FOREIGN KEY (tenant_id, line_user_id) REFERENCES line_user (tenant_id, id)
);
CREATE INDEX workflow_execution_listed ON workflow_execution (workflow_id, started_at DESC, id DESC);
CREATE INDEX workflow_execution_by_age ON workflow_execution (started_at, id);
CREATE INDEX workflow_execution_of_contact ON workflow_execution (workflow_id, line_user_id, started_at DESC, id DESC)
    WHERE line_user_id IS NOT NULL;

CREATE TABLE tracking_link (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id          uuid NOT NULL REFERENCES tenant,
    token              text NOT NULL UNIQUE CHECK (token ~ '^[A-Za-z0-9_-]{32}$'),
    target_url         text NOT NULL,
    line_user_id       bigint,
    execution_id       uuid,
    workflow_node_path text COLLATE "C",
    name               text,
    created_at         instant NOT NULL,
    UNIQUE (tenant_id, id),
    FOREIGN KEY (tenant_id, line_user_id) REFERENCES line_user (tenant_id, id),
    FOREIGN KEY (tenant_id, execution_id) REFERENCES workflow_execution (tenant_id, id),
    CHECK ((execution_id IS NULL) = (workflow_node_path IS NULL))
);
CREATE UNIQUE INDEX one_link_per_wait ON tracking_link (execution_id, workflow_node_path)
    WHERE execution_id IS NOT NULL;

-- The durable click: one row per link that was ever clicked.
CREATE TABLE tracking_click (
    link_id          bigint PRIMARY KEY REFERENCES tracking_link,
    first_clicked_at instant NOT NULL,
    clicks           int NOT NULL DEFAULT 1,
    unlocked_at      instant                       -- NULL: the unlock has still to be tried
);
CREATE INDEX tracking_click_not_yet_unlocked ON tracking_click (link_id) WHERE unlocked_at IS NULL;

-- From status on, the columns of trigger_run under the same names: both go through one life cycle.
CREATE TABLE scheduled_action (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id          uuid NOT NULL REFERENCES tenant,
    origin_key         text NOT NULL CHECK (length(origin_key) BETWEEN 1 AND 255),  -- hash of what caused it
    mode               text NOT NULL DEFAULT 'normal' CHECK (mode IN ('normal', 'waitForTracking')),
    execute_at         instant NOT NULL,           -- as promised to people
    expires_at         instant,
    branch             text CHECK (branch IN ('clicked', 'expired')),
    action_type        text NOT NULL,
    action_config      jsonb NOT NULL,             -- without its delay
    source_config      jsonb,                      -- conditions to be judged again when it comes due
    on_expire          jsonb,
    context            jsonb NOT NULL DEFAULT '{}',  -- of the run or event that caused it, as it was then
    definition_hash    bytea,
    execution_id       uuid,
    workflow_id        bigint,
    workflow_version   int,
    workflow_node_path text COLLATE "C",
    line_user_id       bigint,
    table_id           uuid,
    record_id          bigint,
    tracking_link_id   bigint,
    run_id             bigint,                     -- these three tell where it came from, and may be gone
    event_id           bigint,
    rule_id            bigint,
    depth              smallint NOT NULL DEFAULT 0,
    urgent             boolean NOT NULL DEFAULT false,
    status             text NOT NULL DEFAULT 'pending'
                       CHECK (status IN ('pending', 'processing', 'done', 'failed', 'cancelled')),
    attempts           smallint NOT NULL DEFAULT 0,
    retry_count        smallint NOT NULL GENERATED ALWAYS AS (greatest(attempts - 1, 0)) STORED,
    starts             int NOT NULL DEFAULT 0,
    worker_losses      smallint NOT NULL DEFAULT 0,
    announcements      int NOT NULL DEFAULT 0,
    next_attempt_at    instant,
    announce_at        instant,
    lease_token        uuid NOT NULL DEFAULT gen_random_uuid(),
    worker_id          int,
    leased_until       instant,
    open_action        smallint,                   -- 0: its external call may have been sent
    action_results     jsonb NOT NULL DEFAULT '[]',
    error              text CHECK (length(error) <= 1000),
    created_at         instant NOT NULL,
    updated_at         instant NOT NULL,
    finished_at        instant,
    CONSTRAINT an_action_is_recorded_once UNIQUE (tenant_id, origin_key),
    FOREIGN KEY (tenant_id, definition_hash) REFERENCES definition,
    FOREIGN KEY (tenant_id, execution_id) REFERENCES workflow_execution (tenant_id, id),
    FOREIGN KEY (tenant_id, workflow_id) REFERENCES workflow (tenant_id, id),
    FOREIGN KEY (tenant_id, line_user_id) REFERENCES line_user (tenant_id, id),
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id),
    FOREIGN KEY (tenant_id, tracking_link_id) REFERENCES tracking_link (tenant_id, id),
    CONSTRAINT a_wait_has_an_end CHECK (
        (mode = 'waitForTracking') = (expires_at IS NOT NULL AND tracking_link_id IS NOT NULL)
    ),
    CONSTRAINT only_a_wait_branches CHECK (branch IS NULL OR mode = 'waitForTracking'),
    CONSTRAINT a_step_has_its_place CHECK (
        num_nulls(execution_id, workflow_id, workflow_version, workflow_node_path) IN (0, 4)
    ),
    CONSTRAINT a_record_has_its_table CHECK (record_id IS NULL OR table_id IS NOT NULL),
    CONSTRAINT pending_can_be_found CHECK (
        (status = 'pending') = (announce_at IS NOT NULL AND next_attempt_at IS NOT NULL)
    ),
    CONSTRAINT processing_is_held CHECK (
        (status = 'processing') = (leased_until IS NOT NULL AND worker_id IS NOT NULL)
    ),
    CONSTRAINT terminal_is_finished CHECK (
        (status IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT an_end_has_a_reason CHECK (status NOT IN ('failed', 'cancelled') OR error IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX one_step_per_node ON scheduled_action (execution_id, workflow_node_path)
    WHERE execution_id IS NOT NULL;
CREATE INDEX scheduled_action_oldest ON scheduled_action (urgent, announce_at, id) WHERE status = 'pending';
CREATE INDEX scheduled_action_fair ON scheduled_action (tenant_id, urgent, announce_at, id) WHERE status = 'pending';
CREATE INDEX scheduled_action_held ON scheduled_action (worker_id) WHERE status = 'processing';
CREATE INDEX scheduled_action_waiting ON scheduled_action (tracking_link_id, id)
    WHERE status = 'pending' AND mode = 'waitForTracking' AND branch IS NULL;
CREATE INDEX scheduled_action_listed ON scheduled_action (tenant_id, id DESC);
CREATE INDEX scheduled_action_by_status ON scheduled_action (tenant_id, status, id DESC);
CREATE INDEX scheduled_action_calendar ON scheduled_action (tenant_id, execute_at, id);
CREATE INDEX scheduled_action_of_contact ON scheduled_action (tenant_id, line_user_id, id DESC)
    WHERE line_user_id IS NOT NULL;
CREATE INDEX scheduled_action_of_record ON scheduled_action (table_id, record_id, id DESC)
    WHERE record_id IS NOT NULL;
CREATE INDEX scheduled_action_of_workflow ON scheduled_action (workflow_id, id DESC) WHERE workflow_id IS NOT NULL;
CREATE INDEX scheduled_action_finished ON scheduled_action (finished_at, id) WHERE finished_at IS NOT NULL;
