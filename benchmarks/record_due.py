"""How soon is a record found that comes due in a large table, and who finds it?

Records come due one after another, some written long ago, some changed or made just now, wherever
the cursor of the walk stands. The due pass must find each in the next round; what the audit walk
finds besides would be a hole in the due index. Without the index the walk alone would find them:
as many ticks as it takes to come round to them.
"""

import random
import statistics
import time
from datetime import timedelta

from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_records, add_table, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from shared.db.clock import server_now
from shared.effects.record_writes import create_records, update_record
from shared.queries.custom_tables import get_table
from shared.usecases.due_pass import due_pass
from shared.usecases.tick import tick
from shared.usecases.walk import MAX_PAGES

ROUNDS = 100
RECORD_LIMIT = 10_000
STEP = timedelta(minutes=1)
CELL = "%Y-%m-%d %H:%M"


def main():
    """Let time pass minute by minute and print who found what."""
    options = read_options(__doc__, sizes={"records": (200_000, 1_000_000)})
    with running_database() as database:
        first = server_now(database.conn).replace(second=0, microsecond=0) + timedelta(days=1)
        table = fill(database, options.records, first)
        rows = [
            *pass_time(database.conn, table, first),
            *audit(database.conn, options.records, first + ROUNDS * STEP),
            *walk_alone(database.conn, table, first + timedelta(days=1)),
        ]
    title = f"Records coming due one by one in a table of {options.records:,}"
    rows = [{"question": question, "answer": answer} for question, answer in rows]
    report("record_due", title, rows, options=options)


def fill(database, records, first):
    """Make a table of records that come due a minute apart after ``first``."""
    conn = database.conn
    table = add_table(conn, triggers=[date_trigger()])
    add_records(conn, table, records, first=first, step_seconds=60)
    catch_up(conn)
    database.settle()
    return get_table(conn, table.id)


def pass_time(conn, table, first):
    """Pass a minute a round: an old record comes due, one that was changed, and a new one."""
    choose = random.Random(1)
    ids = [id for (id,) in conn.execute("SELECT id FROM record ORDER BY id")]
    found = walked = 0
    milliseconds = []
    for minute in range(1, ROUNDS + 1):
        now = first + minute * STEP
        cell = {"c2": now.strftime(CELL)}
        # From the far half, so that it is none of those that come due by themselves.
        update_record(conn, table, choose.choice(ids[len(ids) // 2 :]), cell, now=now)
        create_records(conn, table, [cell], now=now)
        before = time.perf_counter()
        found += len(due_pass(conn, now=now).references)
        milliseconds.append((time.perf_counter() - before) * 1000)
        walked += tick(conn, record_limit=10, now=now).runs_created  # and moves the cursor on
    yield "came due", 3 * ROUNDS
    yield "found by the due pass of the next round", found
    yield "found by a page of the walk alone", walked
    yield "due pass with three rows due, ms (median)", rounded(statistics.median(milliseconds))


def audit(conn, records, now):
    """Walk over the whole table: what is found now, the index has missed."""
    ticks = records // (MAX_PAGES * RECORD_LIMIT) + 1
    before = time.perf_counter()
    walked = sum(tick(conn, record_limit=RECORD_LIMIT, now=now).runs_created for _ in range(ticks))
    yield "found by the audit walk alone", walked
    yield "audit walk over all, s", rounded(time.perf_counter() - before)


def walk_alone(conn, table, now):
    """Empty the index and let a record come due: the walk finds it when it comes round to it."""
    ids = [id for (id,) in conn.execute("SELECT id FROM record ORDER BY id")]
    update_record(conn, table, ids[-1], {"c2": now.strftime(CELL)}, now=now)
    conn.execute("TRUNCATE due_value")
    ticks = 1
    while not tick(conn, now=now).runs_created:
        ticks += 1
    yield "ticks until the walk alone finds one", ticks


if __name__ == "__main__":
    main()
