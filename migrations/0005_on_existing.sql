-- Backlogs of date triggers: values that were overdue at the save, to be consumed or to drip.

-- A row while there is one; whoever changes it holds its table's row.
CREATE TABLE backlog (
    trigger_ref bigint PRIMARY KEY REFERENCES trigger_state,
    tenant_id   uuid NOT NULL,
    mode        text NOT NULL CHECK (mode IN ('consume', 'drip')),
    before_at   instant NOT NULL,                  -- the save: its values were due by then
    per_minute  int,
    fired_at    instant,                           -- when the latest of a drip fired
    fired       int NOT NULL DEFAULT 0,            -- how many have fired in that helping
    look_at     instant,                           -- when the due pass is to look; NULL: it knows of none that waits
    CONSTRAINT only_a_drip_has_a_rate CHECK ((mode = 'drip') = (per_minute IS NOT NULL)),
    CONSTRAINT only_a_drip_fires CHECK (
        mode = 'drip' OR (fired = 0 AND num_nonnulls(fired_at, look_at) = 0)
    )
);
CREATE INDEX backlog_due ON backlog (look_at) WHERE look_at IS NOT NULL;

-- Records whose date was written since the save: not of the backlog. A writer may outlast the backlog,
-- and commit behind its end: so each row says which one it is about.
CREATE TABLE fresh_value (
    trigger_ref bigint NOT NULL REFERENCES trigger_state,
    before_at   instant NOT NULL,
    record_id   bigint NOT NULL,
    tenant_id   uuid NOT NULL,
    PRIMARY KEY (trigger_ref, before_at, record_id)
);

-- Records that wait in a drip, as far as the walk has met them. Like the due index, it only points.
CREATE TABLE held_value (
    trigger_ref bigint NOT NULL REFERENCES trigger_state,
    record_id   bigint NOT NULL,
    tenant_id   uuid NOT NULL,
    fire_at     instant NOT NULL,
    PRIMARY KEY (trigger_ref, record_id)
);
CREATE INDEX held_value_oldest ON held_value (trigger_ref, fire_at, record_id);
