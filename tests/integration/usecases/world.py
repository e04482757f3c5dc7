"""A table under its triggers, as tests of the use cases set it up, drive it and look at it."""

from datetime import UTC, datetime, timedelta

from psycopg.rows import class_row, dict_row
from psycopg.sql import SQL, Identifier, Literal

from shared.domain.records import Record
from shared.effects.record_writes import create_records, update_record
from shared.queries.custom_tables import get_table
from shared.queries.trigger_states import list_states_by_ref
from shared.usecases.preview import preview
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tick import tick
from tests.builders import SCHEDULES, a_trigger
from tests.builders_db import LONG_AGO, NOW

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

DATE = SCHEDULES["date_column_reached"]
INTERVAL = SCHEDULES["interval"]
DAILY = SCHEDULES["daily"]
CRON = SCHEDULES["cron"]
CLOCKS = (INTERVAL, DAILY, CRON)

TRIGGER_ID = "trg_00000000aaaa"
OTHER_ID = "trg_00000000bbbb"

OVERDUE = "2026-07-25 08:00"
AHEAD = "2026-07-26 08:00"


def at(text):
    """Return an instant: ``2026-07-25 09:00``, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_known(**parts):
    """Return a trigger as an author writes it, under a known id."""
    return a_trigger(**{"id": TRIGGER_ID} | parts)


def save(conn, table, *triggers, now=NOW, **options):
    """Set the triggers of a table and return it."""
    return set_triggers(conn, table.id, list(triggers), now=now, **options)


def write(conn, table, *cells, now=LONG_AGO):
    """Create a record for each value of the column ``due``, in this order; return them."""
    rows = [cell if isinstance(cell, dict) else {"c2": cell} for cell in cells]
    return [
        record
        for number, row in enumerate(rows)
        for record in create_records(
            conn, get_table(conn, table.id), [row], now=now + number * MINUTE
        )
    ]


def rewrite(conn, table, record, cell, *, now=NOW):
    """Give a record another value in the column ``due``."""
    return update_record(conn, get_table(conn, table.id), record.id, {"c2": cell}, now=now)


def created(conn, *, now=NOW, **options):
    """Tick and return how many runs that created."""
    return tick(conn, now=now, **options).runs_created


def arm(conn, table, *, now=NOW, **options):
    """Return the first arm of the table's preview."""
    return preview(conn, table, now=now, **options).triggers[0]


def runs(conn, table=None):
    """Return all runs, or those of a table, as dictionaries in the order of their birth."""
    with conn.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute("SELECT * FROM trigger_run ORDER BY id").fetchall()
    return [run for run in found if table is None or run["table_id"] == table.id]


def fired(conn, table=None):
    """Return what the runs stand for: the record, or None, and the identity."""
    return [(run["record_id"], run["identity"]) for run in runs(conn, table)]


def end_runs(conn, *, now=NOW, status="done"):
    """Let every active run end, as a worker does."""
    conn.execute(
        """
        UPDATE trigger_run
        SET status = %(status)s, finished_at = %(now)s, next_attempt_at = NULL, announce_at = NULL,
            worker_id = NULL, leased_until = NULL,
            error = CASE WHEN %(status)s = 'failed' THEN 'it failed' END
        WHERE status IN ('pending', 'running')
        """,
        {"status": status, "now": now},
    )


def state_of(conn, trigger_id=TRIGGER_ID):
    """Return the state of a trigger, retired or not; None when it never had one."""
    refs = conn.execute("SELECT id FROM trigger_state WHERE trigger_id = %s", [trigger_id])
    states = list_states_by_ref(conn, [ref for (ref,) in refs])
    return states[0] if states else None


def ledger(conn):
    """Return the ledger as (record id, identity), sorted."""
    return sorted(conn.execute("SELECT record_id, identity FROM occurrence"))


def due_index(conn):
    """Return the due index as record id to instant."""
    return dict(conn.execute("SELECT record_id, fire_at FROM due_value"))


def stored_triggers(conn, table):
    """Return the stored triggers of a table."""
    return get_table(conn, table.id).triggers


def records_of(conn, table):
    """Return all records of a table, deleted ones too, in the order of the walk."""
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        return cursor.execute(
            "SELECT id, table_id, data, version, created_at, updated_at, deleted_at FROM record"
            " WHERE table_id = %s ORDER BY created_at, id",
            [table.id],
        ).fetchall()


def hear(conn, channel):
    """Listen on a session; return what tells how many notifications came since the last time."""
    heard = []
    conn.add_notify_handler(heard.append)
    conn.execute(SQL("LISTEN {}").format(Identifier(channel)))

    def count():
        conn.execute("SELECT 1")  # the server hands out before it answers
        came = len(heard)
        heard.clear()
        return came

    return count


UNREADABLE = "9" * 5000
"""A JSON number that the driver refuses to read: the strict reader keeps it out, SQL does not."""


def poison_table(conn, table):
    """Make a table's triggers unreadable."""
    conn.execute(
        "UPDATE custom_table SET triggers = triggers || %s::jsonb WHERE id = %s",
        [UNREADABLE, table.id],
    )


def poison_cell(conn, record, column_id):
    """Make a cell unreadable."""
    conn.execute(
        "UPDATE record SET data = jsonb_set(data, %s, %s::jsonb) WHERE id = %s",
        [[column_id], UNREADABLE, record.id],
    )


def forbid_runs_of(conn, trigger_id):
    """Let every run of a trigger fail to be inserted, as if by a fault nobody foresaw."""
    conn.execute(
        SQL("ALTER TABLE trigger_run ADD CHECK (trigger_id <> {})").format(Literal(trigger_id))
    )


def fail_inserts(conn, relation, *, code, times):
    """Let so many inserts into a table fail with an error code, rolled back or not."""
    conn.execute("CREATE SEQUENCE failures")
    conn.execute(
        SQL(
            """
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('failures') <= {times} THEN
                    RAISE EXCEPTION SQLSTATE {code};
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER fail BEFORE INSERT ON {relation} FOR EACH ROW EXECUTE FUNCTION fail()
            """
        ).format(times=Literal(times), code=Literal(code), relation=Identifier(relation))
    )


def waits_for_a_lock(conn):
    """Tell whether another session of the database waits for a lock."""
    waiting = conn.execute(
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return waiting.fetchone() is not None
