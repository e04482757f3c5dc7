-- Tables, records, schedule state, the occurrence ledger, runs, and what the first actions need.

-- Finite and within the years 1 to 9999: the driver cannot read anything else back, and one such
-- row would make a whole fetch fail.
CREATE DOMAIN instant AS timestamptz
    CHECK (VALUE >= '0001-01-01 00:00+00' AND VALUE <= '9999-12-31 23:59:59.999999+00');

CREATE TABLE tenant (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
    created_at instant NOT NULL
);

CREATE TABLE api_token (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id  uuid NOT NULL REFERENCES tenant,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    role       text NOT NULL CHECK (role IN ('moderator', 'editor', 'viewer', 'service')),
    channel_id uuid,                               -- NULL: all channels of the tenant
    token_hash bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    created_at instant NOT NULL,
    revoked_at instant
);
CREATE INDEX api_token_of_tenant ON api_token (tenant_id, created_at, id);

-- Answers already given to a POST with an Idempotency-Key; kept for a day.
CREATE TABLE idempotent_answer (
    tenant_id    uuid REFERENCES tenant,           -- NULL: the admin's own keys
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_hash bytea NOT NULL CHECK (length(request_hash) = 32),
    status       int,                              -- NULL: not answered yet
    headers      jsonb NOT NULL DEFAULT '{}',
    body         text NOT NULL DEFAULT '',
    created_at   instant NOT NULL,
    CONSTRAINT a_key_is_answered_once UNIQUE NULLS NOT DISTINCT (key, tenant_id)
);
CREATE INDEX idempotent_answer_by_age ON idempotent_answer (created_at);

-- Keys that sign webhooks; several are valid while one replaces another.
CREATE TABLE signing_key (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id  uuid NOT NULL REFERENCES tenant,
    secret     bytea NOT NULL CHECK (length(secret) BETWEEN 24 AND 64),
    created_at instant NOT NULL,
    expires_at instant                             -- NULL: until it is replaced
);
CREATE INDEX signing_key_of_tenant ON signing_key (tenant_id, created_at, id);

-- One row per start of a worker; alive while a session holds advisory lock (728, id).
CREATE TABLE worker (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host       text NOT NULL,
    release    text NOT NULL,
    roles      text[] NOT NULL,
    threads    int NOT NULL,
    started_at instant NOT NULL,
    stopped_at instant
);

CREATE TABLE custom_table (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id    uuid NOT NULL REFERENCES tenant,
    channel_id   uuid,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    columns      jsonb NOT NULL,                   -- [{id, name, type, options?}]; records are keyed by id
    columns_made int NOT NULL,                     -- ids ever given: the id of a dropped column is not used again
    triggers     jsonb,                            -- normal form; NULL: none were ever set
    revision     bigint NOT NULL DEFAULT 1,        -- the ETag of its definition
    scanned_at   instant NOT NULL DEFAULT 'epoch',
    created_at   instant NOT NULL,
    updated_at   instant NOT NULL,
    trashed_at   instant,
    UNIQUE (tenant_id, id)
);
CREATE INDEX custom_table_to_scan ON custom_table (scanned_at, id)
    WHERE triggers IS NOT NULL AND trashed_at IS NULL;
CREATE INDEX custom_table_listed ON custom_table (tenant_id, created_at, id);

CREATE TABLE record (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    table_id    uuid NOT NULL,
    data        jsonb NOT NULL,                    -- by column id
    version     int NOT NULL DEFAULT 1,            -- +1 per write: guard of a judged value, identity of event runs
    origin_key  text,                              -- of a record an action made: a second start finds the first's
    created_at  instant NOT NULL,
    updated_at  instant NOT NULL,
    deleted_at  instant,
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id)
);
CREATE INDEX record_walk ON record (table_id, created_at, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX a_record_is_made_once ON record (table_id, origin_key) WHERE origin_key IS NOT NULL;

-- Never deleted. Keyed by table and trigger id: an author may choose the id, so the id alone would let
-- one tenant revive another's state.
CREATE TABLE trigger_state (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id         uuid NOT NULL,
    table_id          uuid NOT NULL,
    trigger_id        text NOT NULL CHECK (trigger_id ~ '^trg_[0-9a-f]{12}$'),
    kind              text NOT NULL CHECK (kind IN ('date_column_reached', 'interval', 'daily', 'cron')),
    schedule          jsonb NOT NULL,              -- normal form: an identical save changes nothing, once removed too
    anchor_at         instant NOT NULL,
    last_window_at    instant,
    next_due_at       instant,                     -- clock kinds: when a look is worth while; a hint for the due pass
    cursor_created_at instant,
    cursor_record_id  bigint,
    caught_up         boolean NOT NULL DEFAULT false,  -- the walk has passed all rows since the cursor restarted
    retired_at        instant,
    UNIQUE (table_id, trigger_id),
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id),
    CONSTRAINT cursor_is_whole CHECK ((cursor_created_at IS NULL) = (cursor_record_id IS NULL)),
    CONSTRAINT cursor_walks_records CHECK (kind = 'date_column_reached' OR cursor_record_id IS NULL),
    CONSTRAINT windows_are_of_clocks CHECK (
        kind <> 'date_column_reached' OR (last_window_at IS NULL AND next_due_at IS NULL)
    )
);
CREATE INDEX trigger_state_due ON trigger_state (next_due_at) WHERE retired_at IS NULL;
CREATE INDEX trigger_state_behind ON trigger_state (table_id)
    WHERE kind = 'date_column_reached' AND NOT caught_up AND retired_at IS NULL;

-- The due index: one row per date trigger and record that wants a look at fire_at. Only a pointer: the
-- evaluator and the ledger decide, and the walk fills what is missing.
CREATE TABLE due_value (
    trigger_ref bigint NOT NULL REFERENCES trigger_state,
    record_id   bigint NOT NULL,
    tenant_id   uuid NOT NULL,
    version     int NOT NULL,                      -- of the record it was made from: an older writer never overwrites
    fire_at     instant NOT NULL,
    PRIMARY KEY (trigger_ref, record_id)
);
CREATE INDEX due_value_oldest ON due_value (fire_at, trigger_ref, record_id);
CREATE INDEX due_value_fair ON due_value (tenant_id, fire_at, trigger_ref, record_id);

-- The occurrence ledger.
CREATE TABLE occurrence (
    trigger_ref bigint NOT NULL REFERENCES trigger_state,
    record_id   bigint NOT NULL,                   -- 0 for clock triggers
    identity    text COLLATE "C" NOT NULL,         -- normalised cell value, or the window in UTC
    by_run      boolean NOT NULL,                  -- false: consumed at the save. No run id: runs can be deleted
    consumed_at instant NOT NULL,
    CONSTRAINT an_identity_is_consumed_once PRIMARY KEY (trigger_ref, record_id, identity)
);

-- What runs execute, frozen and stored once under its hash.
CREATE TABLE definition (
    tenant_id uuid NOT NULL REFERENCES tenant,
    hash      bytea NOT NULL CHECK (length(hash) = 32),
    body      jsonb NOT NULL,
    PRIMARY KEY (tenant_id, hash)
);

CREATE TABLE trigger_run (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id       uuid NOT NULL,
    table_id        uuid NOT NULL,
    trigger_id      text NOT NULL,
    trigger_ref     bigint REFERENCES trigger_state,   -- NULL: event trigger
    kind            text NOT NULL CHECK (kind IN (
                        'date_column_reached', 'interval', 'daily', 'cron',
                        'record_created', 'record_updated', 'record_deleted'
                    )),
    record_id       bigint,
    identity        text COLLATE "C" NOT NULL,
    window_key      text,                              -- a label of clock runs
    scheduled_for   instant NOT NULL,                  -- window, fire instant, or the write of an event
    definition_hash bytea NOT NULL,
    snapshot        jsonb,                             -- the row as judged, by column id; NULL: no row
    depth           smallint NOT NULL DEFAULT 0,       -- of the chain of triggers that led here
    urgent          boolean NOT NULL DEFAULT false,    -- announced on action_execute
    status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'done', 'failed')),
    attempts        smallint NOT NULL DEFAULT 0,       -- the retry budget
    starts          int NOT NULL DEFAULT 0,            -- only grows: the delivery number
    worker_losses   smallint NOT NULL DEFAULT 0,
    announcements   int NOT NULL DEFAULT 0,
    next_attempt_at instant,                           -- not to be started before
    announce_at     instant,                           -- to be offered (again) at
    lease_token     uuid NOT NULL DEFAULT gen_random_uuid(),
    worker_id       int,
    leased_until    instant,
    open_action     smallint,                          -- intent: this external action may have been sent
    action_results  jsonb NOT NULL DEFAULT '[]',
    error           text CHECK (length(error) <= 1000),
    created_at      instant NOT NULL,
    updated_at      instant NOT NULL,
    finished_at     instant,
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id),
    FOREIGN KEY (tenant_id, definition_hash) REFERENCES definition,
    CONSTRAINT pending_can_be_found CHECK (
        (status = 'pending') = (announce_at IS NOT NULL AND next_attempt_at IS NOT NULL)
    ),
    CONSTRAINT running_is_held CHECK ((status = 'running') = (leased_until IS NOT NULL AND worker_id IS NOT NULL)),
    CONSTRAINT terminal_is_finished CHECK ((status IN ('done', 'failed')) = (finished_at IS NOT NULL)),
    CONSTRAINT failed_has_a_reason CHECK (status <> 'failed' OR error IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX one_active_run_per_clock_trigger ON trigger_run (trigger_ref)
    WHERE status IN ('pending', 'running') AND kind IN ('interval', 'daily', 'cron');
CREATE INDEX trigger_run_oldest ON trigger_run (urgent, announce_at, id) WHERE status = 'pending';
CREATE INDEX trigger_run_fair ON trigger_run (tenant_id, urgent, announce_at, id) WHERE status = 'pending';
CREATE INDEX trigger_run_held ON trigger_run (worker_id) WHERE status = 'running';
CREATE INDEX trigger_run_listed ON trigger_run (table_id, id DESC);
CREATE INDEX trigger_run_by_trigger ON trigger_run (table_id, trigger_id, id DESC);
CREATE INDEX trigger_run_by_record ON trigger_run (table_id, record_id, id DESC) WHERE record_id IS NOT NULL;
CREATE INDEX trigger_run_failed ON trigger_run (table_id, id DESC) WHERE status = 'failed';
CREATE INDEX trigger_run_finished ON trigger_run (finished_at, id) WHERE finished_at IS NOT NULL;

-- Messages delivered to chatrooms.
CREATE TABLE chat_message (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   uuid NOT NULL REFERENCES tenant,
    chatroom_id uuid NOT NULL,
    message     text NOT NULL,
    origin_key  text NOT NULL,                     -- of the action that sent it: delivered once
    created_at  instant NOT NULL,
    CONSTRAINT a_message_is_stored_once UNIQUE (tenant_id, origin_key)
);
CREATE INDEX chat_message_listed ON chat_message (tenant_id, chatroom_id, id DESC);

-- Commands that invoke_command may call.
CREATE TABLE command (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenant,
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    url          text NOT NULL,
    input_schema jsonb NOT NULL,
    revision     bigint NOT NULL DEFAULT 1,
    created_at   instant NOT NULL,
    updated_at   instant NOT NULL,
    UNIQUE (tenant_id, name)
);
