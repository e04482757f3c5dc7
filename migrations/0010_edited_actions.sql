-- How often people changed what an action sends: from 1 on it enters the Idempotency-Key. A constant
-- default, so that no row is rewritten.

ALTER TABLE scheduled_action ADD COLUMN edits int NOT NULL DEFAULT 0;
