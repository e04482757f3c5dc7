"""Every move of a status, written by the database itself while a run goes on."""

from tests.chaos.evidence import Move

# As the table's own superuser: the services may not write it, and row level security is not asked.
INSTALL = """
CREATE TABLE chaos_move (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    relation text NOT NULL,
    id bigint NOT NULL,
    old text,
    new text,
    starts int,
    worker_id int,
    due_at timestamptz,
    announcements int
);

CREATE FUNCTION chaos_note_work() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO chaos_move (at, relation, id, new)
        VALUES (clock_timestamp(), TG_TABLE_NAME, NEW.id, NEW.status);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO chaos_move (at, relation, id, old)
        VALUES (clock_timestamp(), TG_TABLE_NAME, OLD.id, OLD.status);
    ELSE
        INSERT INTO chaos_move
            (at, relation, id, old, new, starts, worker_id, due_at, announcements)
        VALUES (
            clock_timestamp(), TG_TABLE_NAME, NEW.id, OLD.status, NEW.status, NEW.starts,
            NEW.worker_id, OLD.next_attempt_at, OLD.announcements
        );
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION chaos_note_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    INSERT INTO chaos_move (at, relation, id, old, new)
    VALUES (
        clock_timestamp(), TG_TABLE_NAME, coalesce(NEW.id, OLD.id), OLD.status, NEW.status
    );
    RETURN NULL;
END $$;

CREATE TRIGGER chaos_notes AFTER INSERT OR DELETE ON trigger_run
    FOR EACH ROW EXECUTE FUNCTION chaos_note_work();
CREATE TRIGGER chaos_notes AFTER INSERT OR DELETE ON scheduled_action
    FOR EACH ROW EXECUTE FUNCTION chaos_note_work();
CREATE TRIGGER chaos_notes AFTER INSERT OR DELETE ON staged_change
    FOR EACH ROW EXECUTE FUNCTION chaos_note_change();
CREATE TRIGGER chaos_notes_moves AFTER UPDATE ON trigger_run
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION chaos_note_work();
CREATE TRIGGER chaos_notes_moves AFTER UPDATE ON scheduled_action
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION chaos_note_work();
CREATE TRIGGER chaos_notes_moves AFTER UPDATE ON staged_change
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION chaos_note_change();
"""

# In the order of their rows' versions: a number is drawn under the lock of the row that moves.
_LIST = """
SELECT
    extract(epoch FROM at)::float,
    relation,
    id,
    old,
    new,
    coalesce(starts, 0),
    worker_id,
    extract(epoch FROM due_at)::float,
    coalesce(announcements, 0)
FROM chaos_move
ORDER BY number
"""


def list_moves(conn):
    """Return all moves so far."""
    names = ("at", "table", "id", "old", "new", "starts", "worker_id", "due_at", "announcements")
    return [Move(**dict(zip(names, row, strict=True))) for row in conn.execute(_LIST)]
