"""What row level security leaves of the plans: the API's statements, asked as its role.

A condition that might tell of rows which the policy hides is asked behind the policy, and finds no
index; and the policy's own condition must not lead the planner astray.
"""

import re
from contextlib import contextmanager
from dataclasses import replace

import pytest

from shared.db.connection import connect
from shared.db.roles import API
from shared.queries import (
    action_lists,
    event_lists,
    occurrences,
    record_walk,
    records,
    run_lists,
    timeline,
    trigger_runs,
)
from shared.queries.action_lists import ActionFilter
from shared.queries.event_lists import EventFilter
from shared.queries.run_lists import RunFilter
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_table, insert_tenant
from tests.builders_delayed import insert_execution, insert_line_user
from tests.integration.queries.plans import fill_actions, fill_records, fill_runs, plans_of
from tests.integration.queries.test_action_plans import _SUBJECTS, FILTERS

RUN_FILTERS = {
    "all": (RunFilter(), ["trigger_run_listed"]),
    "failed": (RunFilter(status="failed"), ["trigger_run_failed"]),
    "pending": (RunFilter(status="pending"), ["trigger_run_fair"]),
    "stuck": (RunFilter(status="stuck"), ["trigger_run_failed", "trigger_run_held"]),
    "trigger": (RunFilter(trigger_id="trg_000000000001"), ["trigger_run_by_trigger"]),
    "record": (RunFilter(record_id=7), ["trigger_run_by_record"]),
}


@pytest.fixture
def asking(login_url):
    """Opens a transaction of the API in a tenant."""

    @contextmanager
    def ask(tenant_id):
        with connect(login_url(API), application_name="test", role=API) as api:
            api.bind(tenant_id)
            with api.transaction():
                yield api

    return ask


def _assert_uses(plan, index, *, relation):
    assert index in plan, plan
    assert f"Seq Scan on {relation}" not in plan, plan


def test_a_listing_of_runs_uses_the_index_of_its_filter(conn, asking):
    table = fill_runs(conn)

    with asking(table.tenant_id) as api:
        for filter, indexes in RUN_FILTERS.values():
            parameters = run_lists._list_values(table, filter, before=19_000, limit=50, now=NOW)
            listings = run_lists._clauses(filter, before=19_000)
            for clauses, index in zip(listings, indexes, strict=True):
                planned, _ = plans_of(api, run_lists._COLUMNS + clauses, parameters)
                _assert_uses(planned, index, relation="trigger_run")


def test_a_bulk_cancel_of_runs_finds_them_by_an_index(conn, asking):
    table = fill_runs(conn)
    chosen = trigger_runs._CANCELLED + trigger_runs._CHOSEN

    with asking(table.tenant_id) as api:
        for name in ("pending", "trigger", "record"):
            filter, [index] = RUN_FILTERS[name]
            statement = chosen + run_lists.pending_clauses(filter) + trigger_runs._LOCKED
            values = run_lists.filter_values(table, filter) | {"limit": 10_000, "now": NOW}
            planned, _ = plans_of(api, statement, values)
            _assert_uses(planned, index, relation="trigger_run")
            _assert_uses(planned, "trigger_run_pkey", relation="trigger_run")
            for asked in (filter, replace(filter, from_at=LONG_AGO, to_at=NOW)):
                counted = run_lists._COUNT + run_lists.pending_clauses(asked)
                planned, _ = plans_of(api, counted, run_lists.filter_values(table, asked))
                _assert_uses(planned, index, relation="trigger_run")


def test_the_runs_of_a_range_are_found_without_reading_those_of_others(conn, asking):
    table = fill_runs(conn)
    asked = {"from_at": LONG_AGO, "to_at": NOW}

    with asking(table.tenant_id) as api:
        explain = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) " + timeline._IDS_WITHIN
        api.execute(explain, asked)  # the first reads the catalogue
        plan = "\n".join(line for (line,) in api.execute(explain, asked))

    pages = re.search(r"Function Scan on run_ids_within.*\n *Buffers: shared hit=(\d+)", plan)
    assert pages is not None, plan
    assert int(pages[1]) < 300, plan


def test_a_listing_of_actions_uses_the_index_of_its_filter(conn, asking):
    tenant = fill_actions(conn, analyse=False)
    table = insert_table(conn, tenant_id=tenant)
    known = {
        "tenant": tenant,
        "contact": insert_line_user(conn, tenant),
        "table": table.id,
        **insert_execution(conn, tenant),
    }
    conn.execute(_SUBJECTS, known)
    conn.execute("VACUUM ANALYZE")
    place = {"after_at": NOW, "after_id": 19_999, "limit": 50}

    with asking(tenant) as api:
        for filter_of, index in FILTERS.values():
            filter = ActionFilter(**filter_of(known))
            statement = action_lists._statement(filter, is_first=False)
            parameters = action_lists.parameters(tenant, filter) | place
            planned, _ = plans_of(api, statement, parameters)
            _assert_uses(planned, f"scheduled_action_{index}", relation="scheduled_action")


def test_a_listing_of_events_uses_the_index_of_its_filter(conn, asking):
    tenants = [insert_tenant(conn) for _ in range(20)]
    conn.execute(
        """
        INSERT INTO event (tenant_id, name, created_at)
        SELECT tenant, 'event ' || n %% 20, '2026-01-01Z'::timestamptz + n * interval '1 s'
        FROM unnest(%s::uuid[]) AS tenant
        CROSS JOIN generate_series(1, 1000) AS n
        """,
        [tenants],
    )
    conn.execute("ANALYZE event")
    asked = {"tenant_id": tenants[0], "name": "event 7", "from_at": LONG_AGO, "to_at": NOW}
    place = {"before_at": NOW, "before_id": 19_999, "limit": 50}

    with asking(tenants[0]) as api:
        for filter, index in (
            (EventFilter(), "event_listed"),
            (EventFilter(name="event 7"), "event_by_name"),
            (EventFilter(from_at=LONG_AGO, to_at=NOW), "event_listed"),
        ):
            statement = event_lists.statement(filter, (NOW, 19_999))
            planned, _ = plans_of(api, statement, asked | place)
            _assert_uses(planned, index, relation="event")


def test_records_and_what_a_preview_walks_keep_their_order(conn, asking):
    state = fill_records(conn)
    page = {"table_id": state.table_id, "created_at": LONG_AGO, "record_id": 1, "limit": 100}
    stretch = {
        "table_id": state.table_id,
        "trigger_ref": state.ref,
        "column_id": "c2",
        "identity_length": 16,
        "before": "2026-07-25",
        "after_created_at": LONG_AGO,
        "after_id": 1,
        "up_to_created_at": FAR_OFF,
        "up_to_id": 1,
        "limit": 100,
    }
    consumed = {"trigger_ref": state.ref, "record_ids": list(range(1, 101))}

    with asking(state.tenant_id) as api:
        for statement, parameters in (
            (records._LIST_RECORDS, page),
            (record_walk._STRETCH, stretch),
        ):
            for plan in plans_of(api, statement, parameters):
                _assert_uses(plan, "record_walk", relation="record")
                assert "Sort" not in plan, plan
        for plan in plans_of(api, occurrences._CONSUMED_IDENTITIES, consumed):
            # Of so few entries either index of the trigger's will do.
            assert "on occurrence" in plan, plan
            assert "Seq Scan on occurrence" not in plan, plan
