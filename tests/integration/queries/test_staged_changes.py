from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from psycopg.errors import CheckViolation, ForeignKeyViolation
from psycopg.types.json import Jsonb

from shared.domain.staged_changes import NewChange, Origin
from shared.domain.work import Reference
from shared.errors import NotFound
from shared.lifecycle import wait_until
from shared.queries import approved_changes, staged_changes
from shared.queries.announcements import list_waits, next_announcement_at
from shared.queries.change_lists import ChangeFilter, get_change, list_changes
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    cells_of,
    insert_records,
    insert_row,
    insert_run,
    insert_table,
    insert_tenant,
    statuses_of,
)
from tests.builders_delayed import insert_action
from tests.builders_staged import insert_change, insert_delete, insert_update
from tests.integration.usecases.world import waits_for_a_lock

NOBODY = UUID(int=0)
REVIEW = {"reviewed_by": None, "reason": None, "now": NOW}
ORIGIN = Origin(key="k", work_kind="trigger_run", work_id=7, depth=3)


@pytest.fixture
def table(conn):
    return insert_table(conn, approval="required")


def _new(**more):
    return NewChange(**{"operation": "create", "origin": ORIGIN, "proposed": {"c1": "a"}} | more)


def _token(conn, change_id):
    return cells_of(conn, "staged_change", change_id, "token")[0]


def _reference(conn, change_id):
    return Reference(id=change_id, token=_token(conn, change_id))


def _ids(rows):
    return [row.id for row in rows]


# staged


def test_a_change_is_staged_once_for_its_origin(conn, table):
    first = staged_changes.insert_change(conn, table, _new(), now=NOW)

    assert staged_changes.insert_change(conn, table, _new(), now=NOW) is None
    assert staged_changes.find_by_origin(conn, table.tenant_id, "k") == first
    assert staged_changes.find_by_origin(conn, NOBODY, "k") is None
    change = get_change(conn, table, first)
    assert (change.status, change.operation, change.proposed) == ("pending", "create", {"c1": "a"})
    assert (change.run_id, change.scheduled_action_id, change.depth) == (7, None, 3)


def test_two_transactions_stage_one_change(conn, other_conn, table):
    with conn.transaction():
        first = staged_changes.insert_change(conn, table, _new(), now=NOW)
        assert staged_changes.find_by_origin(other_conn, table.tenant_id, "k") is None

    assert staged_changes.insert_change(other_conn, table, _new(), now=NOW) is None
    assert staged_changes.find_by_origin(other_conn, table.tenant_id, "k") == first


@pytest.mark.parametrize(
    "broken",
    [
        {"status": "approved", "announce_at": None},
        {"status": "pending", "announce_at": LONG_AGO},
        {"status": "rejected", "finished_at": None},
        {"status": "failed", "error": None},
        {"status": "applied", "record_id": None},
        {"status": "pending", "reviewed_at": LONG_AGO},
        {"status": "pending", "reason": "why"},
        {"operation": "update"},
        {"proposed": None},
        {"base": Jsonb({})},
        {"run_id": None},
        {"scheduled_action_id": 1},
        {"record_id": 7},
    ],
    ids=str,
)
def test_a_row_that_contradicts_itself_is_refused(conn, table, broken):
    with pytest.raises(CheckViolation):
        insert_change(conn, table, **broken)


def test_a_reviewer_is_a_token_of_the_same_tenant(conn, table):
    token = {"name": "x", "role": "moderator", "token_hash": b"h" * 32, "created_at": LONG_AGO}
    theirs = insert_row(conn, "api_token", tenant_id=insert_tenant(conn), **token)

    with pytest.raises(ForeignKeyViolation):
        insert_change(conn, table, status="rejected", reviewed_by=theirs)


# reviewed


def test_what_is_approved_is_due_at_once(conn, table):
    change_id = insert_change(conn, table)

    assert staged_changes.approve(conn, table, change_id, **REVIEW | {"reason": "it is right"})

    change = get_change(conn, table, change_id)
    assert (change.status, change.reason, change.reviewed_at) == ("approved", "it is right", NOW)
    assert next_announcement_at(conn) == NOW


def test_what_is_rejected_has_ended(conn, table):
    change_id = insert_change(conn, table)

    assert staged_changes.reject(conn, table, change_id, **REVIEW)

    change = get_change(conn, table, change_id)
    assert (change.status, change.finished_at, change.error) == ("rejected", NOW, None)


@pytest.mark.parametrize("status", ["approved", "rejected", "applied", "failed"])
def test_what_is_not_pending_is_not_reviewed(conn, table, status):
    change_id = insert_change(conn, table, status=status)
    before = get_change(conn, table, change_id)

    assert not staged_changes.approve(conn, table, change_id, **REVIEW)
    assert not staged_changes.reject(conn, table, change_id, **REVIEW)
    assert not staged_changes.review_matching(
        conn, table, ChangeFilter(status=status), "approved", **REVIEW, limit=9
    )
    assert get_change(conn, table, change_id) == before


def test_the_change_of_another_table_is_not_reviewed(conn, table):
    change_id = insert_change(conn)

    assert not staged_changes.approve(conn, table, change_id, **REVIEW)
    with pytest.raises(NotFound):
        get_change(conn, table, change_id)


@pytest.mark.parametrize("second", [staged_changes.approve, staged_changes.reject])
@pytest.mark.parametrize("first", [staged_changes.approve, staged_changes.reject])
def test_of_two_reviews_at_once_the_first_counts(conn, other_conn, table, first, second):
    change_id = insert_change(conn, table)

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            assert first(conn, table, change_id, **REVIEW)
            late = pool.submit(second, other_conn, table, change_id, **REVIEW)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=30)
        assert late.result() is False

    expected = "approved" if first is staged_changes.approve else "rejected"
    assert statuses_of(conn, "staged_change") == [expected]


def test_a_filter_reviews_the_oldest_of_what_is_pending(conn, table):
    record = insert_records(conn, table, [{}])[0]
    insert_change(conn)
    ids = [
        insert_change(conn, table),
        insert_update(conn, table, record),
        insert_delete(conn, table, record),
        insert_update(conn, table, record, status="rejected"),
    ]
    review = partial(staged_changes.review_matching, conn, table, **REVIEW)

    assert review(ChangeFilter(record_id=record.id), "rejected", limit=1) == 1
    assert get_change(conn, table, ids[1]).status == "rejected"
    assert review(ChangeFilter(operation="delete"), "approved", limit=9) == 1
    assert review(ChangeFilter(), "approved", limit=9) == 1
    assert statuses_of(conn, "staged_change") == [
        "pending",
        "approved",
        "rejected",
        "approved",
        "rejected",
    ]


# announced


def test_due_changes_are_announced_the_oldest_first_and_later_again(conn, table):
    ids = [
        insert_change(conn, table, status="approved", announce_at=LONG_AGO + timedelta(days=day))
        for day in (2, 1, 3)
    ]
    insert_change(conn, table, status="approved", announce_at=FAR_OFF)
    insert_change(conn, table)

    announced = approved_changes.announce_changes(conn, limit=2, after=None)

    assert sorted(_ids(announced)) == sorted(ids[:2])
    assert {(row.kind, row.urgent, row.announcements) for row in announced} == {
        ("staged_change", True, 1)
    }
    assert _ids(approved_changes.announce_changes(conn, limit=9, after=None)) == [ids[2]]
    assert approved_changes.announce_changes(conn, limit=9, after=None) == []
    (wait,) = list_waits(conn)
    assert (wait.kind, wait.urgent) == ("staged_change", True)
    assert 0 < wait.seconds <= 60


def test_announcements_become_rarer(conn, table):
    change_id = insert_change(conn, table, status="approved")
    seconds = []

    for _ in range(6):
        approved_changes.announce_changes(conn, limit=1, after=None)
        (wait,) = list_waits(conn)
        seconds.append(round(wait.seconds / 60))
        conn.execute("UPDATE staged_change SET announce_at = %s", [LONG_AGO])

    assert seconds == [1, 2, 4, 8, 10, 10]
    assert get_change(conn, table, change_id).announcements == 6


@pytest.mark.parametrize("after", [None, NOBODY])
def test_two_announcers_never_share_a_change(conn, other_conn, table, after):
    ids = [insert_change(conn, table, status="approved") for _ in range(10)]

    with conn.transaction():
        first = approved_changes.announce_changes(conn, limit=5, after=after)
        second = approved_changes.announce_changes(other_conn, limit=9, after=after)

    assert len(first) == 5
    assert not set(_ids(first)) & set(_ids(second))
    third = approved_changes.announce_changes(conn, limit=9, after=None)
    assert sorted(_ids(first) + _ids(second) + _ids(third)) == ids


def test_of_many_tenants_each_has_its_turn(conn, table):
    for _ in range(20):
        insert_change(conn, table, status="approved")
    late = insert_change(conn, status="approved", announce_at=LONG_AGO + timedelta(days=1))

    assert late not in _ids(approved_changes.announce_changes(conn, limit=4, after=None))
    assert late in _ids(approved_changes.announce_changes(conn, limit=4, after=NOBODY))


def test_an_announcement_is_taken_back_under_its_token(conn, table):
    change_id = insert_change(conn, table, status="approved")
    (announced,) = approved_changes.announce_changes(conn, limit=1, after=None)

    assert approved_changes.unannounce_changes(conn, [Reference(change_id, NOBODY)]) == []
    reference = Reference(change_id, announced.token)
    assert approved_changes.unannounce_changes(conn, [reference]) == [change_id]
    assert _ids(approved_changes.announce_changes(conn, limit=1, after=None)) == [change_id]
    assert get_change(conn, table, change_id).announcements == 1


def test_what_was_announced_and_is_due_again_was_lost(conn, table):
    insert_change(conn, table, status="approved")
    insert_change(conn, table, status="approved", announcements=1, announce_at=FAR_OFF)
    assert approved_changes.count_overdue(conn, limit=10) == 0

    for _ in range(3):
        insert_change(conn, table, status="approved", announcements=1)

    assert approved_changes.count_overdue(conn, limit=10) == 3
    assert approved_changes.count_overdue(conn, limit=2) <= 2


# applied


def test_only_what_is_approved_is_offered_under_its_token(conn, table):
    ids = {
        status: insert_change(conn, table, status=status)
        for status in ("pending", "approved", "rejected", "applied", "failed")
    }
    references = [_reference(conn, id) for id in ids.values()]

    (offered,) = approved_changes.list_approved(conn, [*references, *references])

    assert (offered.id, offered.table_id) == (ids["approved"], table.id)
    assert approved_changes.list_approved(conn, [Reference(ids["approved"], NOBODY)]) == []


def test_of_two_that_apply_a_change_one_gets_it(conn, other_conn, table):
    change_id = insert_change(conn, table, status="approved")
    token = _token(conn, change_id)
    record_id = insert_records(conn, table, [{}])[0].id

    with conn.transaction():
        assert approved_changes.lock_approved(conn, change_id, token).id == change_id
        assert approved_changes.lock_approved(other_conn, change_id, token) is None
        assert approved_changes.mark_applied(conn, change_id, token, record_id=record_id, now=NOW)

    assert approved_changes.lock_approved(other_conn, change_id, token) is None
    assert not approved_changes.mark_applied(conn, change_id, token, record_id=record_id, now=NOW)
    assert not approved_changes.mark_failed(conn, change_id, token, error="e", now=NOW)
    change = get_change(conn, table, change_id)
    assert (change.status, change.record_id, change.finished_at) == ("applied", record_id, NOW)


def test_a_stale_token_ends_nothing(conn, table):
    change_id = insert_change(conn, table, status="approved")

    assert approved_changes.lock_approved(conn, change_id, NOBODY) is None
    assert not approved_changes.mark_applied(conn, change_id, NOBODY, record_id=1, now=NOW)
    assert not approved_changes.mark_failed(conn, change_id, NOBODY, error="e", now=NOW)
    assert statuses_of(conn, "staged_change") == ["approved"]


# seen, and deleted


def test_changes_are_listed_by_filter_the_newest_first(conn, table):
    record = insert_records(conn, table, [{}])[0]
    insert_change(conn)
    first = insert_change(conn, table, created_at=NOW, run_id=5)
    second = insert_update(conn, table, record, status="approved")
    third = insert_delete(conn, table, record)

    def listed(before=None, limit=9, **filter):
        page = list_changes(conn, table, ChangeFilter(**filter), before=before, limit=limit)
        return _ids(page.items)

    assert listed() == [third, second, first]
    assert listed(limit=2) == [third, second]
    assert listed(before=second) == [first]
    assert listed(status="pending") == [third, first]
    assert listed(operation="update") == [second]
    assert listed(record_id=record.id) == [third, second]
    assert listed(run_id=5) == [first]
    assert listed(from_at=NOW) == [first]
    assert listed(to_at=NOW) == [third, second]


def test_what_ended_goes_when_the_work_that_staged_it_is_gone(conn, table):
    run = insert_run(conn, table)
    action = insert_action(conn, table.tenant_id)
    of_action = {"run_id": None, "scheduled_action_id": action}
    kept = [
        insert_change(conn, table, status="applied", run_id=run),
        insert_change(conn, table, status="rejected", **of_action),
        insert_change(conn, table, status="approved"),
        insert_change(conn, table, status="pending"),
        insert_change(conn, table, status="failed", finished_at=NOW),
    ]
    for status in ("applied", "rejected", "failed"):
        insert_change(conn, table, status=status, run_id=run + 1)

    assert staged_changes.delete_finished(conn, before=NOW, limit=2) == 2
    assert staged_changes.delete_finished(conn, before=NOW, limit=2) == 1

    left = list_changes(conn, table, ChangeFilter(), limit=20).items
    assert sorted(_ids(left)) == kept
