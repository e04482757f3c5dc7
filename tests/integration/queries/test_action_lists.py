from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.errors import NotFound
from shared.queries.action_lists import (
    ActionFilter,
    count_actions,
    count_failed,
    count_stale,
    get_action,
    list_actions,
    place,
)
from tests.builders_db import LONG_AGO, insert_records, insert_table, insert_tenant
from tests.builders_delayed import (
    NOTIFY,
    insert_action,
    insert_execution,
    insert_line_user,
    insert_wait,
)

STATUSES = ("pending", "processing", "done", "failed", "cancelled")
HOUR = timedelta(hours=1)


@pytest.fixture
def tenant(conn):
    return insert_tenant(conn)


def _pages(conn, tenant, *, limit=100, **filter):
    """Return the ids of a listing, page by page, and hold its count against it."""
    pages, after, more = [], None, True
    while more:
        page = list_actions(conn, tenant, ActionFilter(**filter), after=after, limit=limit)
        pages.append([action.id for action in page.items])
        after, more = (place(page.items[-1]) if page.items else None), page.more
    assert count_actions(conn, tenant, ActionFilter(**filter)) == sum(map(len, pages))
    return pages


def _ids(conn, tenant, **filter):
    [page] = _pages(conn, tenant, **filter)
    return page


def test_an_action_shows_what_it_holds(conn, tenant):
    action_id = insert_wait(
        conn,
        tenant,
        status="processing",
        branch="clicked",
        attempts=3,
        on_expire=Jsonb([NOTIFY]),
        action_results=Jsonb([{"ok": True}]),
    )

    action = get_action(conn, tenant, action_id)

    assert (action.id, action.tenant_id, action.status) == (action_id, tenant, "processing")
    assert (action.mode, action.branch, action.expires_at) == (
        "waitForTracking",
        "clicked",
        LONG_AGO,
    )
    assert (action.action_config, action.on_expire) == (NOTIFY, [NOTIFY])
    assert (action.attempts, action.retry_count) == (3, 2)
    assert action.action_results == [{"ok": True}]


def test_an_action_of_another_tenant_is_not_found(conn, tenant):
    with pytest.raises(NotFound) as caught:
        get_action(conn, tenant, insert_action(conn))

    assert caught.value.code == "scheduled_action_not_found"


def test_actions_are_listed_newest_first_page_by_page(conn, tenant):
    ids = [insert_action(conn, tenant) for _ in range(5)]
    insert_action(conn)

    assert _pages(conn, tenant, limit=3) == [ids[:1:-1], ids[1::-1]]


def test_actions_of_a_time_are_listed_in_its_order(conn, tenant):
    hours = (3, 1, 2, 1)
    ids = [insert_action(conn, tenant, execute_at=LONG_AGO + n * HOUR) for n in hours]
    by_time = [ids[1], ids[3], ids[2], ids[0]]

    assert _pages(conn, tenant, limit=2, from_at=LONG_AGO) == [by_time[:2], by_time[2:]]
    assert _ids(conn, tenant, from_at=LONG_AGO + 2 * HOUR) == by_time[2:]
    assert _ids(conn, tenant, to_at=LONG_AGO + 2 * HOUR) == by_time[:2]
    assert _ids(conn, tenant, from_at=LONG_AGO + 2 * HOUR, to_at=LONG_AGO + 3 * HOUR) == [ids[2]]


@pytest.mark.parametrize("status", STATUSES)
def test_actions_are_listed_by_status(conn, tenant, status):
    ids = {other: insert_action(conn, tenant, status=other) for other in STATUSES}

    assert _ids(conn, tenant, status=status) == [ids[status]]


def test_actions_are_listed_by_subject_and_workflow(conn, tenant):
    table = insert_table(conn, tenant_id=tenant)
    records = insert_records(conn, table, [{}, {}])
    contact = insert_line_user(conn, tenant)
    execution = insert_execution(conn, tenant)
    other = insert_execution(conn, tenant, execution["workflow_id"])
    of_contact = insert_action(conn, tenant, line_user_id=contact)
    of_records = [insert_action(conn, tenant, table_id=table.id, record_id=r.id) for r in records]
    step, step_of_other = (insert_action(conn, tenant, **one) for one in (execution, other))

    assert _ids(conn, tenant, line_user_id=contact) == [of_contact]
    assert _ids(conn, tenant, table_id=table.id) == of_records[::-1]
    assert _ids(conn, tenant, table_id=table.id, record_id=records[0].id) == of_records[:1]
    assert _ids(conn, tenant, workflow_id=execution["workflow_id"]) == [step_of_other, step]
    assert _ids(conn, tenant, execution_id=execution["execution_id"]) == [step]
    assert _ids(conn, tenant, line_user_id=contact, status="done") == []


def test_a_filter_finds_nothing_of_another_tenant(conn, tenant):
    theirs = insert_tenant(conn)
    contact = insert_line_user(conn, theirs)
    insert_action(conn, theirs, line_user_id=contact)

    assert _ids(conn, tenant, line_user_id=contact) == []
    assert _ids(conn, tenant, from_at=LONG_AGO) == []


def test_a_page_of_large_actions_is_short_and_says_that_others_follow(conn, tenant, monkeypatch):
    monkeypatch.setattr("shared.queries.pages.MAX_CHARACTERS", 100)
    large = Jsonb({"type": "notify", "message": "x" * 80})
    ids = [insert_action(conn, tenant, action_config=large) for _ in range(5)]

    assert _pages(conn, tenant) == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


def test_what_wants_somebodys_eyes_is_counted_over_all_tenants(conn, tenant):
    now = server_now(conn)
    for _ in range(2):
        insert_action(conn, status="failed")
        insert_action(conn, status="processing", updated_at=now - timedelta(seconds=301))
        insert_action(conn, status="processing", updated_at=now - timedelta(seconds=299))
        insert_action(conn, tenant)

    assert (count_failed(conn), count_stale(conn, now=now)) == (2, 2)
