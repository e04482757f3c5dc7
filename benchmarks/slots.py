"""How long does it take to make the slots of many resources, and how long is a transaction open?

Half-hours round the clock, as materialize_slots makes them, step by step: the first run, which
makes all; the same again, which keeps all; and a day later with a tenth of the lines gone and
prune on. Into a table without triggers, and into one with a date trigger, whose due index is kept.
Beside it one bare COPY of as many rows.
"""

import json
import time
from datetime import timedelta

from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_table, add_tenant
from benchmarks.measure.servers import running_database
from shared.actions.materialize_slots import Sowing
from shared.db.clock import server_now
from shared.domain.columns import Column
from shared.effects.record_writes import create_records, delete_record
from shared.effects.slot_writes import fill
from shared.queries.custom_tables import get_table
from shared.usecases.lookups import TenantLookup

LINES = (
    Column(id="c1", name="room", type="text"),
    Column(id="c2", name="weekdays", type="json"),
    Column(id="c3", name="from", type="text"),
    Column(id="c4", name="to", type="text"),
)
SLOTS = (
    Column(id="c1", name="room", type="text"),
    Column(id="c2", name="from", type="datetime"),
    Column(id="c3", name="to", type="datetime"),
    Column(id="c4", name="status", type="select", options=("open", "taken")),
)
ZONE = "America/New_York"
REMINDER = {
    "name": "soon",
    "on": "schedule",
    "schedule": {"type": "date_column_reached", "column": "from", "offset_minutes": -60},
    "actions": [{"type": "webhook", "url": "https://example.com/"}],
}
COPY = "COPY record (tenant_id, table_id, data, created_at, updated_at) FROM STDIN"


def main():
    """Fill both tables, three runs each, and print one table."""
    options = read_options(__doc__, sizes={"resources": (100, 100), "days": (30, 90)})
    rows = []
    with running_database() as database:
        for told, triggers in (("no trigger", None), ("a date trigger", [REMINDER])):
            rows += runs(database, told, triggers, options)
    report("slots", f"{options.resources} resources, {options.days} days", rows, options=options)


def runs(database, told, triggers, options):
    """Return the rows of a table of slots with these triggers."""
    conn = database.conn
    tenant_id = add_tenant(conn)
    roster = add_table(conn, tenant_id=tenant_id, columns=LINES)
    target = add_table(conn, tenant_id=tenant_id, columns=SLOTS, triggers=triggers)
    now = server_now(conn)
    week = {"c2": [0, 1, 2, 3, 4, 5, 6], "c3": "00:00", "c4": "24:00"}
    cells = [{"c1": f"room {number}", **week} for number in range(options.resources)]
    lines = create_records(conn, roster, cells, now=now)
    config = config_of(roster, target, options.days)
    database.settle()
    first = run(conn, config, tenant_id, now=now)
    database.settle()
    again = run(conn, config, tenant_id, now=now)
    for line in lines[: max(1, len(lines) // 10)]:
        delete_record(conn, roster, line.id, now=now)
    pruning = {**config, "prune": True}
    later = run(conn, pruning, tenant_id, now=now + timedelta(days=1))
    named = (("first run", first), ("again", again), ("a day later, pruning", later))
    rows = [{"question": f"{told}: {name}", **figures} for name, figures in named]
    if triggers is None:
        rows.append({"question": "bare COPY of as many rows", **copied(database, target)})
    return rows


def config_of(roster, target, days):
    """Return the settings of the action."""
    names = {"resource": "room", "start": "from", "end": "to"}
    return {
        "type": "materialize_slots",
        "roster": {"table_id": str(roster.id), "weekday": "weekdays", **names},
        "target": {"table_id": str(target.id), "status": "status", **names},
        "slot_minutes": 30,
        "horizon_days": days,
        "timezone": ZONE,
    }


def run(conn, config, tenant_id, *, now):
    """Do what a worker does for a run, but for its receipts; return the figures of a row."""
    find = TenantLookup(conn=conn, tenant_id=tenant_id).find_table
    counts = {"created": 0, "kept": 0, "pruned": 0}
    steps = []
    until, began = None, time.perf_counter()
    while True:
        step_began = time.perf_counter()
        with conn.transaction():
            sowing = Sowing.of(conn, config, find, "UTC")
            horizon = sowing.horizon(now, since=until)
            filled = fill(conn, sowing.filling(now=now, depth=1), sowing.stretch(horizon))
        steps.append(time.perf_counter() - step_began)
        counts = {name: count + getattr(filled, name) for name, count in counts.items()}
        if filled.until >= horizon.until:
            break
        until = filled.until.replace(tzinfo=None).isoformat()
    return figures(counts, steps, time.perf_counter() - began)


def figures(counts, steps, seconds):
    """Return a row without its name."""
    return {
        **counts,
        "seconds": rounded(seconds),
        "us a slot": rounded(seconds / max(1, sum(counts.values())) * 1e6),
        "steps": len(steps),
        "longest ms": rounded(max(steps) * 1000),
    }


def copied(database, target):
    """Copy the live rows of the table into another one; return the figures of a row."""
    conn = database.conn
    table = get_table(conn, target.id)
    empty = add_table(conn, tenant_id=table.tenant_id, columns=SLOTS)
    now = server_now(conn)
    rows = conn.execute("SELECT data FROM record WHERE table_id = %s", [table.id]).fetchall()
    # As the superuser: whom row level security binds, may not COPY.
    with database.admin() as admin:
        began = time.perf_counter()
        with admin.cursor().copy(COPY) as copy:
            for (data,) in rows:
                copy.write_row((empty.tenant_id, empty.id, json.dumps(data), now, now))
    seconds = time.perf_counter() - began
    return figures({"created": len(rows), "kept": 0, "pruned": 0}, [seconds], seconds)


if __name__ == "__main__":
    main()
