"""Pages of a timeline read by index, however much has happened and lies ahead."""

import re
from datetime import timedelta

import pytest

from shared.queries import timeline, whys
from shared.queries.timeline import list_event_runs
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_definition, insert_state, insert_table
from tests.integration.queries.plans import fill_records, plans_of

_INDEX = re.compile(r"(?:using|Index Scan on) (\w+)")

_LEDGER = """
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
SELECT %(ref)s, id %% 5000, 'x' || id, true, '2026-01-01Z'::timestamptz + id * interval '1 s'
FROM generate_series(1, 20000) AS id
"""
_WINDOWS = """
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
SELECT
    %(ref)s, 0,
    to_char('2026-01-01Z'::timestamptz + n * interval '1 min', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    true, '2026-01-01Z'::timestamptz + n * interval '1 min'
FROM generate_series(1, 20000) AS n
"""
_RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, trigger_ref, kind, record_id, identity, scheduled_for,
    definition_hash, status, finished_at, created_at, updated_at
)
SELECT
    %(tenant)s, %(table)s, %(trigger)s, %(ref)s, %(kind)s, %(record)s, 'x' || n, '2026-01-01Z',
    %(hash)s, 'done', '2026-01-01Z',
    '2026-01-01Z'::timestamptz + n * interval '1 min', '2026-01-01Z'
FROM generate_series(1, 10000) AS n
"""


@pytest.fixture
def state(conn):
    """The state of a date trigger among others with as much history; its last runs are analysed."""
    state = fill_records(conn)
    table = insert_table(conn, tenant_id=state.tenant_id)
    clock = insert_state(conn, table, kind="interval")
    conn.execute(_LEDGER, {"ref": state.ref})
    conn.execute(_WINDOWS, {"ref": clock.ref})
    hash = insert_definition(conn, state.tenant_id)
    for one, kind, record in ((state, "date_column_reached", 7), (clock, "interval", None)):
        conn.execute(
            _RUNS,
            {
                "tenant": one.tenant_id,
                "table": one.table_id,
                "trigger": one.trigger_id,
                "ref": one.ref,
                "kind": kind,
                "record": record,
                "hash": hash,
            },
        )
    conn.execute("ANALYZE")
    return state


def _parameters(state):
    return {
        "tenant_id": state.tenant_id,
        "table_id": state.table_id,
        "trigger_id": state.trigger_id,
        "trigger_ref": state.ref,
        "record_id": 7,
        "identity": "x7",
        "from_at": LONG_AGO,
        "to_at": NOW,
        "after_at": LONG_AGO,
        "after_record_id": 0,
        "after_identity": "",
        "from_identity": "2026-01-01T00:00:00Z",
        "to_identity": "2026-12-01T00:00:00Z",
        "after": 0,
        "first_id": 0,
        "last_id": 10**9,
        "limit": 101,
        "column_id": "c2",
        "column_ids": ["c1"],
    }


# A long range; a trigger, and a record, that have few of the runs.
SELDOM = {
    "entries": {"to_at": FAR_OFF},
    "event runs": {"trigger_id": "trg_00000000ffff"},
    "last run": {"record_id": 8},
}

STATEMENTS = {
    "occurrences": (timeline._LIST_OCCURRENCES, {"occurrence_timeline", "trigger_run_by_record"}),
    "windows": (
        timeline._LIST_WINDOWS,
        {"an_identity_is_consumed_once", "trigger_run_of_window"},
    ),
    "entries": (timeline._LIST_ENTRIES, {"due_value_fair"}),
    "event runs": (timeline._LIST_EVENT_RUNS, {"trigger_run_by_trigger"}),
    "window": (whys._FIND_WINDOW, {"an_identity_is_consumed_once", "trigger_run_of_window"}),
    "of a record": (
        whys._LIST_OF_RECORD,
        {"an_identity_is_consumed_once", "trigger_run_by_record"},
    ),
    "of a value": (
        whys._FIND_OF_RECORD,
        {"an_identity_is_consumed_once", "trigger_run_by_record"},
    ),
    "entry": (whys._FIND_ENTRY, {"due_value_pkey"}),
    "last run": (whys._FIND_LAST_RUN, {"trigger_run_by_record"}),
    "row": (whys._FIND_ROW, {"record_pkey"}),
}


def test_every_statement_reads_by_its_index_and_nothing_whole(conn, state):
    for name, (statement, indexes) in STATEMENTS.items():
        plan, _ = plans_of(conn, statement, _parameters(state) | SELDOM.get(name, {}))

        assert "Seq Scan" not in plan, f"{name}: {plan}"
        assert set(_INDEX.findall(plan)) == indexes, f"{name}: {plan}"


def test_a_page_of_the_ledger_sorts_no_more_than_what_came_at_one_instant(conn, state):
    plan, _ = plans_of(conn, timeline._LIST_OCCURRENCES, _parameters(state))

    assert "Incremental Sort" in plan
    assert re.search(r"Presorted Key: .*consumed_at.*record_id", plan), plan


def test_the_runs_of_a_range_are_found_by_halves(conn, state):
    day = timedelta(days=1)
    start = NOW.replace(month=1, day=3, hour=0)

    found = list_event_runs(
        conn,
        state.table_id,
        state.trigger_id,
        from_at=start,
        to_at=start + day,
        limit=5000,
    )

    assert len(found) == 1440
    assert found[0].created_at == start
    assert found[-1].created_at == start + day - timedelta(minutes=1)
