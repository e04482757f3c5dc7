-- no-transaction
-- The events of a tenant in the order of time, all of them and those of a name.

CREATE INDEX CONCURRENTLY IF NOT EXISTS event_listed ON event (tenant_id, created_at DESC, id DESC);
-- next
CREATE INDEX CONCURRENTLY IF NOT EXISTS event_by_name
    ON event (tenant_id, name, created_at DESC, id DESC);
