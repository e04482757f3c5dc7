-- no-transaction
-- What happened to a trigger, in the order of time: its ledger, and the run of a window.
-- And the names that columns had before, for what was frozen under them.

CREATE INDEX CONCURRENTLY IF NOT EXISTS occurrence_timeline
    ON occurrence (trigger_ref, consumed_at, record_id);
-- next
-- Of clock triggers alone, which are few: a date run pays nothing for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS trigger_run_of_window
    ON trigger_run (trigger_ref, identity) WHERE record_id IS NULL;
-- next
ALTER TABLE custom_table ADD COLUMN IF NOT EXISTS former_names jsonb NOT NULL DEFAULT '{}';
