-- Tables whose actions ask before they write, and what these wanted to write.

ALTER TABLE custom_table
    ADD COLUMN approval text NOT NULL DEFAULT 'none' CHECK (approval IN ('none', 'required'));

-- Who reviewed a change is a token of the same tenant. Tokens are few: the index is there at once.
-- squawk-ignore disallowed-unique-constraint, constraint-missing-not-valid
ALTER TABLE api_token ADD UNIQUE (tenant_id, id);

-- Base and proposed cells are by column id. An application needs no lease: it is one transaction that
-- moves the row and writes the record.
CREATE TABLE staged_change (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id           uuid NOT NULL,
    table_id            uuid NOT NULL,
    record_id           bigint,                    -- of a create: the record that it made, once applied
    operation           text NOT NULL CHECK (operation IN ('create', 'update', 'delete')),
    base_version        int,                       -- of the record when the change was staged
    base                jsonb,                     -- an update: the same cells before; a delete: all cells
    proposed            jsonb,                     -- the cells to write
    origin_key          text NOT NULL CHECK (length(origin_key) BETWEEN 1 AND 255),  -- of the action
    run_id              bigint,                    -- one of these two staged it, and may be gone
    scheduled_action_id bigint,
    depth               smallint NOT NULL DEFAULT 0,  -- of the runs that the write will cause
    status              text NOT NULL DEFAULT 'pending'
                        CHECK (status IN ('pending', 'approved', 'rejected', 'applied', 'failed')),
    reviewed_at         instant,
    reviewed_by         uuid,                      -- NULL after a review: the admin
    reason              text CHECK (length(reason) BETWEEN 1 AND 1000),
    announcements       int NOT NULL DEFAULT 0,
    announce_at         instant,                   -- to be offered (again) at
    token               uuid NOT NULL DEFAULT gen_random_uuid(),
    error               text CHECK (length(error) <= 1000),
    created_at          instant NOT NULL,
    updated_at          instant NOT NULL,
    finished_at         instant,
    CONSTRAINT a_change_is_staged_once UNIQUE (tenant_id, origin_key),
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id),
    FOREIGN KEY (tenant_id, reviewed_by) REFERENCES api_token (tenant_id, id),
    CONSTRAINT a_change_has_its_record CHECK (
        (operation = 'create' AND status <> 'applied') = (record_id IS NULL)
    ),
    CONSTRAINT a_change_has_its_base CHECK (
        (operation = 'create') = (base_version IS NULL) AND (operation = 'create') = (base IS NULL)
    ),
    CONSTRAINT a_change_has_its_cells CHECK ((operation = 'delete') = (proposed IS NULL)),
    CONSTRAINT work_has_staged_it CHECK (num_nonnulls(run_id, scheduled_action_id) = 1),
    CONSTRAINT approved_can_be_found CHECK ((status = 'approved') = (announce_at IS NOT NULL)),
    CONSTRAINT a_review_has_its_time CHECK ((status = 'pending') = (reviewed_at IS NULL)),
    CONSTRAINT only_a_review_has_a_reviewer CHECK (
        reviewed_at IS NOT NULL OR (reviewed_by IS NULL AND reason IS NULL)
    ),
    CONSTRAINT terminal_is_finished CHECK (
        (status IN ('rejected', 'applied', 'failed')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT failed_has_a_reason CHECK (status <> 'failed' OR error IS NOT NULL)
);
CREATE INDEX staged_change_to_apply ON staged_change (announce_at, id) WHERE status = 'approved';
CREATE INDEX staged_change_fair ON staged_change (tenant_id, announce_at, id) WHERE status = 'approved';
CREATE INDEX staged_change_to_review ON staged_change (table_id, id) WHERE status = 'pending';
CREATE INDEX staged_change_listed ON staged_change (table_id, id DESC);
CREATE INDEX staged_change_by_status ON staged_change (table_id, status, id DESC);
CREATE INDEX staged_change_of_record ON staged_change (table_id, record_id, id DESC) WHERE record_id IS NOT NULL;
CREATE INDEX staged_change_of_run ON staged_change (table_id, run_id, id DESC) WHERE run_id IS NOT NULL;
CREATE INDEX staged_change_finished ON staged_change (finished_at, id) WHERE finished_at IS NOT NULL;
