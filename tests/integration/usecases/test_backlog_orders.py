"""A write beside a save that consumes, in every order of the statements that matter.

Whatever meets whatever, it is as if one had come after the other: either the new value is consumed,
or the former one is and the new one fires.
"""

import pytest

from shared.domain.on_existing import OnExisting
from shared.effects.record_writes import update_record
from shared.queries import backlogs, custom_tables, record_walk, trigger_states
from shared.queries.custom_tables import get_table, trash_table
from shared.usecases.due_pass import due_pass
from shared.usecases.tick import tick
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import DATE, DAY, OVERDUE, a_known, runs, save, write
from tests.interleavings import Side, SteppedConnection, every_interleaving

CONSUME = OnExisting(mode="consume")
NEW = "2026-07-25 07:00"

# What the sides stop at, beside their commits: what one reads and the other writes.
_MATTERS = {
    "writer": (custom_tables._FIND_TABLE, trigger_states._LIST_STATES),
    "saver": (
        record_walk._ROWS[True, False],
        backlogs._FRESH_RECORDS,
        backlogs._CONSUME_VALUES,
    ),
}


@pytest.fixture
def open_side(database_url):
    opened = []

    def open_side(name):
        conn = SteppedConnection.connect(database_url, autocommit=True)
        conn.passing = lambda statement: statement not in _MATTERS[name]
        opened.append(conn)
        return conn

    yield open_side
    for conn in opened:
        conn.close()


def _let_be_known(conn, table):
    """Let the trigger stand before, and all lie ahead of it: the save edits it."""
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": 43200}))
    tick(conn, now=NOW)


@pytest.mark.parametrize("scan", [tick, due_pass])
def test_a_write_comes_before_the_save_or_after_it(conn, other_conn, open_side, scan):
    writer, saver = open_side("writer"), open_side("saver")

    def world():
        table = insert_table(conn)
        (record,) = write(conn, table, OVERDUE)
        _let_be_known(conn, table)

        def write_anew():
            with writer.transaction():
                known = get_table(writer, table.id)
                update_record(writer, known, record.id, {"c2": NEW}, now=NOW)

        def save_and_scan():
            save(saver, table, a_known(schedule=DATE), on_existing=CONSUME)
            scan(saver, now=NOW)

        sides = [
            Side(name="writer", conn=writer, work=write_anew),
            Side(name="saver", conn=saver, work=save_and_scan),
        ]
        return sides, lambda run: _check(conn, table, run)

    ran = every_interleaving(world, monitor=other_conn)

    assert len(ran) > 10


def _check(conn, table, run):
    while tick(conn, now=NOW).unfinished:
        pass
    due_pass(conn, now=NOW)
    tick(conn, now=NOW + DAY)
    consumed = conn.execute(
        "SELECT identity FROM occurrence JOIN trigger_state AS state ON state.id = trigger_ref"
        " WHERE state.table_id = %s AND NOT by_run",
        [table.id],
    ).fetchall()
    fired = [one["identity"] for one in runs(conn, table)]
    outcome = [identity for (identity,) in consumed], fired
    trash_table(conn, table.id, now=NOW)
    assert outcome in (([NEW], []), ([OVERDUE], [NEW])), (outcome, run.steps)
