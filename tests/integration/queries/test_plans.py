import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.queries import (
    announcements,
    claims,
    due_values,
    new_runs,
    occurrences,
    record_walk,
    records,
    run_lists,
    trigger_runs,
    work,
)
from shared.queries.run_lists import RunFilter
from tests.builders_db import FAR_OFF, LONG_AGO, NOW
from tests.builders_work import insert_work
from tests.integration.queries.plans import fill_actions, fill_records, fill_runs, plans_of

_INDEX = re.compile(r"(?:using|Index Scan on) (\w+)")
TOKEN = UUID(int=1)
FILL = {"trigger_run": fill_runs, "scheduled_action": fill_actions}
HALF_DUE = datetime(2072, 1, 1, tzinfo=UTC)
LEASE = {
    "worker_id": 1,
    "lease_token": TOKEN,
    "lease_seconds": 300.0,
    "external_types": ["webhook", "api_call"],
}
BATCH = {"urgent": False, "limit": 50, "after": TOKEN}
IDS = {"ids": list(range(1, 21)), "tokens": [TOKEN] * 20, "unsent": [1]}
_HALF_URGENT = "UPDATE {} SET urgent = (id % 2 = 0) WHERE status = 'pending'"
FINISH = {"receipts": ["[]"] * 20, "statuses": ["done"] * 20, "errors": [None] * 20}
SWEEP = {
    "restart_grace_seconds": 30.0,
    "session_seconds": 60.0,
    "max_losses": 5,
    "error": "lost",
}

CLAIM_OFFERED = {
    "trigger_run": claims._CLAIM_OFFERED,
    "scheduled_action": claims._CLAIM_OFFERED_ACTIONS,
}
CLAIM_OLDEST = {
    "trigger_run": claims._CLAIM_OLDEST,
    "scheduled_action": claims._CLAIM_OLDEST_ACTIONS,
}
CLAIM_FAIREST = {
    "trigger_run": claims._CLAIM_FAIREST,
    "scheduled_action": claims._CLAIM_FAIREST_ACTIONS,
}
# Statements by table, their parameters, and the index, whose name begins with the table's.
WORK_STATEMENTS = {
    "announce_batch": (announcements._ANNOUNCE_BATCH, BATCH, "oldest"),
    "announce_batch_fairly": (announcements._ANNOUNCE_BATCH_FAIRLY, BATCH, "fair"),
    "claim": (CLAIM_OFFERED, LEASE | IDS, "pkey"),
    "claim_due": (CLAIM_OLDEST, LEASE | BATCH, "oldest"),
    "claim_due_fairly": (CLAIM_FAIREST, LEASE | BATCH, "fair"),
    "renew": (work._RENEW, LEASE | {"lease_tokens": [TOKEN]}, "held"),
    "list_held": (work._LIST_HELD, LEASE, "held"),
    "finish": (work._FINISH_SEVERAL, IDS | FINISH, "pkey"),
    "hand_back": (work._HAND_BACK, IDS, "pkey"),
    "recover_stale": (work._RECOVER_STALE, BATCH | SWEEP, "held"),
}

RUN_STATEMENTS = {
    "has_active_run": (
        new_runs._HAS_ACTIVE_RUN,
        {"trigger_ref": 1},
        "one_active_run_per_clock_trigger",
    ),
    "delete_finished": (
        trigger_runs._DELETE_FINISHED,
        {"before": LONG_AGO, "limit": 500},
        "trigger_run_finished",
    ),
}


@pytest.fixture
def runs_table(conn):
    return fill_runs(conn)


@pytest.fixture(params=list(FILL))
def kind(request):
    return request.param


@pytest.fixture
def state(conn):
    return fill_records(conn)


def _assert_uses(plans, index, *, relation):
    for plan in plans:
        assert index in plan, plan
        assert f"Seq Scan on {relation}" not in plan, plan


def test_statements_on_either_table_use_their_index(conn, kind):
    FILL[kind](conn)

    for statements, parameters, index in WORK_STATEMENTS.values():
        plans = plans_of(conn, statements[kind], parameters)
        _assert_uses(plans, f"{kind}_{index}", relation=kind)


def test_a_fair_batch_asks_few_tenants_with_many_rows_by_their_index(conn, kind):
    FILL[kind](conn, tenants=3)

    for statement in (announcements._ANNOUNCE_BATCH_FAIRLY[kind], CLAIM_FAIREST[kind]):
        plans = plans_of(conn, statement, LEASE | BATCH)
        _assert_uses(plans, f"{kind}_fair", relation=kind)


def test_a_claim_of_what_is_due_walks_one_index_of_one_table(conn, kind):
    FILL[kind](conn)

    for plan in plans_of(conn, CLAIM_OLDEST[kind], LEASE | BATCH):
        used = set(_INDEX.findall(plan)) - {"custom_table_pkey"}
        assert used == {f"{kind}_oldest", f"{kind}_pkey"}, plan


def test_the_next_announcement_is_found_at_the_heads_of_the_indexes(conn):
    fill_runs(conn)
    fill_actions(conn)
    for kind in FILL:  # of either sort there are many, or their heads are no better than all
        conn.execute(_HALF_URGENT.format(kind))
        conn.execute(f"VACUUM ANALYZE {kind}")

    for statement in (announcements._NEXT_ANNOUNCEMENT_AT, announcements._LIST_WAITS):
        for plan in plans_of(conn, statement, {}):
            for kind in FILL:
                assert plan.count(f"using {kind}_oldest") == 2, plan
            assert plan.count("Limit") == 4, plan


def test_what_is_due_and_held_of_both_tables_is_counted_by_indexes(conn):
    fill_runs(conn)
    fill_actions(conn)

    for statement, index in (
        (announcements._COUNT_DUE, "oldest"),
        (announcements._COUNT_OVERDUE, "oldest"),
        (announcements._COUNT_RUNNING, "held"),
        (announcements._SILENT_SINCE, "held"),
    ):
        for kind in FILL:
            plans = plans_of(conn, statement, {"limit": 100})
            _assert_uses(plans, f"{kind}_{index}", relation=kind)


def test_statements_on_runs_use_their_index(conn, runs_table):
    for statement, parameters, index in RUN_STATEMENTS.values():
        _assert_uses(plans_of(conn, statement, parameters), index, relation="trigger_run")


def test_rows_named_by_key_are_found_by_it_under_statistics_of_an_empty_table(conn, kind):
    insert_work(conn, kind, announce_at=FAR_OFF, next_attempt_at=FAR_OFF)
    conn.execute("ANALYZE")
    FILL[kind](conn, tenants=1, rows=5000, analyse=False)

    for statements, parameters in (
        (CLAIM_OFFERED, LEASE | IDS),
        (announcements._UNANNOUNCE, IDS),
        (work._MARK_INTENTS, LEASE | IDS | {"positions": [0] * 20}),
        (work._FINISH_SEVERAL, IDS | FINISH),
        (work._HAND_BACK, IDS),
    ):
        for plan in plans_of(conn, statements[kind], parameters):
            assert set(_INDEX.findall(plan)) == {f"{kind}_pkey"}, plan
            assert f"Seq Scan on {kind}" not in plan, plan


@pytest.mark.parametrize(
    ("filter", "indexes"),
    [
        (RunFilter(), ["trigger_run_listed"]),
        (RunFilter(status="failed"), ["trigger_run_failed"]),
        (RunFilter(status="running"), ["trigger_run_held"]),
        (RunFilter(status="pending"), ["trigger_run_fair"]),
        (RunFilter(status="stuck"), ["trigger_run_failed", "trigger_run_held"]),
        (RunFilter(trigger_id="trg_000000000001"), ["trigger_run_by_trigger"]),
        (RunFilter(record_id=7), ["trigger_run_by_record"]),
    ],
    ids=["all", "failed", "running", "pending", "stuck", "trigger", "record"],
)
def test_a_listing_of_runs_uses_the_index_of_its_filter(conn, runs_table, filter, indexes):
    parameters = run_lists._list_values(runs_table, filter, before=19_000, limit=50, now=NOW)
    listings = run_lists._clauses(filter, before=19_000)

    for clauses, index in zip(listings, indexes, strict=True):
        planned, _ = plans_of(conn, run_lists._COLUMNS + clauses, parameters)
        _assert_uses([planned], index, relation="trigger_run")


def test_the_walk_and_the_listing_of_records_use_the_index_of_the_walk(conn, state):
    place = {"table_id": state.table_id, "created_at": LONG_AGO + timedelta(minutes=5)}
    page = place | {"record_id": 1, "limit": 100}
    stretch = {
        "table_id": state.table_id,
        "trigger_ref": state.ref,
        "column_id": "c2",
        "identity_length": 16,
        "before": "2026-07-25",
        "after_created_at": LONG_AGO + timedelta(minutes=5),
        "after_id": 1,
        "up_to_created_at": FAR_OFF,
        "up_to_id": 1,
        "limit": 100,
    }

    for statement, parameters in (
        (record_walk._STRETCH, stretch),
        (records._LIST_RECORDS, page),
    ):
        for plan in plans_of(conn, statement, parameters):
            assert "record_walk" in plan, plan
            assert "Sort" not in plan, plan


def test_the_ledger_is_asked_by_its_key(conn, state):
    page = {"trigger_ref": state.ref, "record_ids": list(range(1, 101))}
    for plan in plans_of(conn, occurrences._CONSUMED_IDENTITIES, page):
        assert re.search("Index Cond: .*trigger_ref = .*record_id = ANY", plan), plan

    window = {"trigger_ref": state.ref, "identity": "2026-07-25T09:00:00Z"}
    plans = plans_of(conn, occurrences._IS_WINDOW_CONSUMED, window)
    _assert_uses(plans, "an_identity_is_consumed_once", relation="occurrence")


def test_the_due_index_is_read_from_its_head(conn, state):
    for statement, parameters, index in (
        (due_values._TAKE_DUE, {"now": HALF_DUE, "limit": 100}, "due_value_oldest"),
        (
            due_values._TAKE_DUE_FAIRLY,
            {"now": HALF_DUE, "limit": 100, "after": TOKEN},
            "due_value_fair",
        ),
        (due_values._NEXT_FIRE_AT, {}, "due_value_oldest"),
    ):
        for plan in plans_of(conn, statement, parameters):
            assert index in plan, plan


def test_due_records_are_found_by_key_and_joined_to_ledger_rows_without_a_nested_loop(conn, state):
    ids = [
        id for (id,) in conn.execute("SELECT id FROM record WHERE table_id = %s", [state.table_id])
    ]
    parameters = {
        "tenant_id": state.tenant_id,
        "table_id": state.table_id,
        "trigger_id": state.trigger_id,
        "trigger_ref": state.ref,
        "record_ids": ids,
        "versions": [1] * len(ids),
        "identities": ["2026-07-25"] * len(ids),
        "fire_ats": [LONG_AGO] * len(ids),
        "definition_hash": bytes(32),
        "announcements": 1,
        "announce_at": NOW,
        "now": NOW,
    }

    planned, _ = plans_of(conn, new_runs._INSERT_DATE_RUNS, parameters)

    assert planned.count("Nested Loop") == 1, planned
    assert "record_pkey" in planned, planned
