from datetime import timedelta
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    insert_definition,
    insert_records,
    insert_table,
)
from tests.builders_delayed import (
    NOTIFY,
    insert_action,
    insert_execution,
    insert_line_user,
    insert_wait,
    insert_workflow,
)
from tests.integration.api.callers import faults, problem

ACTIONS = "/v1/scheduled-actions"
STATUSES = ("pending", "processing", "done", "failed", "cancelled")
NOBODYS = UUID("22222222-2222-4222-8222-222222222222")
WEBHOOK = {"type": "webhook", "url": "https://example.com/hook"}


@pytest.fixture
def action(conn, tenant):
    """The id of an action that is to run in a day."""
    return a_later_one(conn, tenant)


def a_later_one(conn, tenant, *, days=1, **columns):
    at = server_now(conn) + timedelta(days=days)
    times = {"execute_at": at, "announce_at": at, "next_attempt_at": at}
    return insert_action(conn, tenant.id, **times | columns)


def a_later_wait(conn, tenant, **columns):
    return insert_wait(conn, tenant.id, expires_at=server_now(conn) + timedelta(days=1), **columns)


def path(action_id, verb=None):
    return f"{ACTIONS}/{action_id}" + (f"/{verb}" if verb else "")


def in_days(conn, days):
    return text_of(server_now(conn) + timedelta(days=days))


def text_of(instant):
    return instant.isoformat().replace("+00:00", "Z")


def ids(answer):
    assert answer.status_code == 200, answer.json
    return [item["id"] for item in answer.json["items"]]


def test_an_action_shows_its_settings_its_subject_and_its_result(moderator, conn, tenant):
    table = insert_table(conn, tenant_id=tenant.id)
    [record] = insert_records(conn, table, [{}])
    contact = insert_line_user(conn, tenant.id)
    execution = insert_execution(conn, tenant.id)
    receipt = {"type": "notify", "ok": False, "detail": "no", "attempts": 1}
    action_id = insert_wait(
        conn,
        tenant.id,
        status="failed",
        branch="clicked",
        attempts=2,
        source_config=Jsonb({"when": []}),
        on_expire=Jsonb([NOTIFY]),
        action_results=Jsonb([receipt]),
        line_user_id=contact,
        table_id=table.id,
        record_id=record.id,
        **execution,
    )

    shown = moderator.get(path(action_id)).json

    assert (shown["id"], shown["status"], shown["mode"], shown["branch"]) == (
        action_id,
        "failed",
        "waitForTracking",
        "clicked",
    )
    assert shown["execute_at"] == shown["expires_at"] == text_of(LONG_AGO)
    assert (shown["action_type"], shown["action_config"]) == ("notify", NOTIFY)
    assert (shown["source_config"], shown["on_expire"]) == ({"when": []}, [NOTIFY])
    assert (shown["line_user_id"], shown["table_id"], shown["record_id"]) == (
        contact,
        str(table.id),
        record.id,
    )
    assert shown["execution_id"] == str(execution["execution_id"])
    assert (shown["workflow_id"], shown["workflow_node_path"]) == (execution["workflow_id"], "0")
    assert (shown["result"], shown["error"], shown["retry_count"]) == (receipt, "it failed", 1)


def test_actions_are_listed_in_pages_the_newest_first(moderator, conn, tenant):
    made = [insert_action(conn, tenant.id) for _ in range(5)]

    first = moderator.get(f"{ACTIONS}?limit=2")
    second = moderator.get(f"{ACTIONS}?limit=3&cursor={first.json['next_cursor']}")

    assert ids(first) + ids(second) == made[::-1]
    assert second.json["next_cursor"] is None
    assert second.json["items"][0] == moderator.get(path(made[2])).json


def test_actions_of_a_time_are_listed_in_pages_in_its_order(moderator, conn, tenant):
    made = [a_later_one(conn, tenant, days=days) for days in (3, 1, 2)]
    query = f"{ACTIONS}?from={in_days(conn, 0)}&limit=2"

    first = moderator.get(query)
    second = moderator.get(f"{query}&cursor={first.json['next_cursor']}")

    assert ids(first) + ids(second) == [made[1], made[2], made[0]]
    assert ids(moderator.get(f"{ACTIONS}?to={in_days(conn, 2)}")) == [made[1], made[2]]


def test_a_list_has_the_actions_of_its_filter(moderator, conn, tenant):
    table = insert_table(conn, tenant_id=tenant.id)
    [record] = insert_records(conn, table, [{}])
    contact = insert_line_user(conn, tenant.id)
    execution = insert_execution(conn, tenant.id)
    of_contact = insert_action(conn, tenant.id, line_user_id=contact, status="done")
    of_record = insert_action(conn, tenant.id, table_id=table.id, record_id=record.id)
    step = insert_action(conn, tenant.id, status="failed", **execution)

    def listed(**query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return ids(moderator.get(f"{ACTIONS}?{text}"))

    assert listed(line_user_id=contact) == [of_contact]
    assert listed(table_id=table.id) == [of_record]
    assert listed(table_id=table.id, record_id=record.id) == [of_record]
    assert listed(table_id=table.id, record_id=record.id + 1) == []
    assert listed(workflow_id=execution["workflow_id"]) == [step]
    assert listed(execution_id=execution["execution_id"]) == [step]
    assert listed(status="done") == [of_contact]
    assert listed(status="done", workflow_id=execution["workflow_id"]) == []


@pytest.mark.parametrize(
    "query",
    [
        "status=lost",
        "status=running",
        "line_user_id=0",
        "table_id=x",
        f"table_id={NOBODYS}&record_id=x",
        "workflow_id=-1",
        "execution_id=7",
        "from=yesterday",
        "to=2026-01-01",
    ],
)
def test_a_filter_that_is_not_understood_is_refused(query, moderator):
    assert problem(moderator.get(f"{ACTIONS}?{query}"))[:2] == (400, "field_invalid")


def test_a_record_is_named_with_its_table(moderator):
    listed = moderator.get(f"{ACTIONS}?record_id=7")
    cancelled = moderator.post(f"{ACTIONS}/cancel", json={"record_id": 7})

    for answer in (listed, cancelled):
        assert problem(answer)[:2] == (400, "field_missing")
        assert faults(answer) == [("/table_id", "field_missing")]


def test_the_time_of_an_action_is_changed(moderator, conn, action):
    later = in_days(conn, 3)

    changed = moderator.patch(path(action), json={"execute_at": later})

    assert changed.status_code == 200
    assert (changed.json["execute_at"], changed.json["next_attempt_at"]) == (later, later)
    assert (changed.json["expires_at"], changed.json["action_config"]) == (None, NOTIFY)
    assert moderator.get(path(action)).json == changed.json


def test_the_deadline_of_a_wait_moves_with_its_time(moderator, conn, tenant):
    later = in_days(conn, 3)

    changed = moderator.patch(path(a_later_wait(conn, tenant)), json={"execute_at": later})

    assert (changed.json["execute_at"], changed.json["expires_at"]) == (later, later)


def test_the_settings_of_an_action_are_changed_as_a_whole(moderator, action):
    before = moderator.get(path(action)).json

    assert moderator.get(path(action)).json["edits"] == 0

    changed = moderator.patch(path(action), json={"action_config": WEBHOOK})

    assert changed.json["edits"] == 1

    assert changed.status_code == 200, changed.json
    assert (changed.json["action_type"], changed.json["action_config"]) == ("webhook", WEBHOOK)
    assert changed.json["execute_at"] == before["execute_at"]


def test_a_change_of_nothing_changes_nothing(moderator, action):
    before = moderator.get(path(action)).json

    changed = moderator.patch(path(action), json={})

    assert changed.status_code == 200
    assert {**changed.json, "updated_at": None} == {**before, "updated_at": None}


@pytest.mark.parametrize(("days", "status"), [(-1, 400), (0, 400), (365.9, 200), (366.1, 400)])
def test_a_time_lies_in_the_future_and_within_366_days(moderator, conn, action, days, status):
    answer = moderator.patch(path(action), json={"execute_at": in_days(conn, days)})

    assert answer.status_code == status
    if status == 400:
        assert faults(answer) == [("/execute_at", "execute_at_out_of_bounds")]


@pytest.mark.parametrize("value", ["soon", 5, None, "9999-12-31T23:59:59-01:00"])
def test_a_time_that_is_none_is_refused(value, moderator, action):
    answer = moderator.patch(path(action), json={"execute_at": value})

    assert problem(answer)[:2] == (400, "field_invalid")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({}, ("/action_config/type", "action_invalid")),
        ({"type": 5}, ("/action_config/type", "action_invalid")),
        ({"type": "dance"}, ("/action_config/type", "action_type_unknown")),
        ({**WEBHOOK, "url": 5}, ("/action_config/url", "action_invalid")),
        ({**WEBHOOK, "on_error": "x"}, ("/action_config/on_error", "action_invalid")),
        ({**WEBHOOK, "delay": {"seconds": 5}}, ("/action_config/delay", "delay_invalid")),
        ({**WEBHOOK, "url": "$row.title"}, ("/action_config/url", "row_token_not_allowed")),
        (
            {"type": "update_record", "data": {"a": 1}},
            ("/action_config/target", "row_target_not_allowed"),
        ),
    ],
)
def test_settings_are_checked_like_those_of_a_save(moderator, action, settings, fault):
    answer = moderator.patch(path(action), json={"action_config": settings})

    assert problem(answer)[0] == 400
    assert faults(answer) == [fault]


def test_all_faults_of_a_change_are_told_at_once(moderator, conn, action):
    body = {"action_config": {"type": "dance"}, "execute_at": in_days(conn, -1)}

    answer = moderator.patch(path(action), json=body)

    assert faults(answer) == [
        ("/action_config/type", "action_type_unknown"),
        ("/execute_at", "execute_at_out_of_bounds"),
    ]


def of_trigger(conn, tenant, **trigger):
    """Return the id of an action that a trigger scheduled, on a table with ``title``."""
    table = insert_table(conn, tenant_id=tenant.id)
    columns = [column.to_json() for column in table.columns]
    hash = insert_definition(conn, tenant.id, {"v": 1, "trigger": trigger, "columns": columns})
    return a_later_one(conn, tenant, definition_hash=hash, table_id=table.id, run_id=1)


def test_settings_may_name_what_the_row_of_their_trigger_has(moderator, conn, tenant):
    action_id = of_trigger(conn, tenant, on="record_created")

    def changed(message):
        body = {"action_config": NOTIFY | {"message": message}}
        return moderator.patch(path(action_id), json=body)

    assert changed("$row.title").status_code == 200
    assert problem(changed("$row.nothing"))[0] == 400


def test_settings_of_a_clock_trigger_have_no_row(moderator, conn, tenant):
    schedule = {"type": "cron", "expression": "0 9 * * *"}
    action_id = of_trigger(conn, tenant, on="schedule", schedule=schedule)

    answer = moderator.patch(
        path(action_id), json={"action_config": NOTIFY | {"message": "$row.title"}}
    )

    assert problem(answer)[:2] == (400, "cron_action_not_allowed")


def test_settings_of_a_step_may_name_the_links_of_its_workflow(moderator, conn, tenant):
    wait = {
        "type": "wait_for_tracking",
        "seconds": 60,
        "link": "offer",
        "target_url": "https://example.com",
    }
    workflow = insert_workflow(conn, tenant.id, nodes=[wait], name="welcome")
    action_id = a_later_one(conn, tenant, **insert_execution(conn, tenant.id, workflow))

    def changed(**settings):
        return moderator.patch(path(action_id), json={"action_config": NOTIFY | settings})

    assert changed(message="$link.offer").status_code == 200
    unknown = changed(message="$link.other")
    assert faults(unknown) == [("/action_config/message", "template_link_unknown")]


@pytest.mark.parametrize("kind", ["delay", "wait_for_tracking"])
def test_a_step_that_only_waits_has_no_settings_to_change(moderator, conn, tenant, kind):
    step = {"action_type": kind, "action_config": Jsonb({"seconds": 60})}
    execution = insert_execution(conn, tenant.id)
    action_id = a_later_one(conn, tenant, **execution | step)

    answer = moderator.patch(path(action_id), json={"action_config": NOTIFY})

    assert problem(answer)[:2] == (400, "step_has_no_action")
    assert (
        moderator.patch(path(action_id), json={"execute_at": in_days(conn, 2)}).status_code == 200
    )


def test_a_pending_action_is_cancelled(moderator, action):
    cancelled = moderator.post(path(action, "cancel"))

    assert cancelled.status_code == 200
    assert (cancelled.json["status"], cancelled.json["error"]) == ("cancelled", "cancelled")
    assert cancelled.json["finished_at"] is not None


def test_an_action_is_run_now(moderator, conn, action):
    moved = moderator.post(path(action, "run-now"))

    assert moved.status_code == 200
    assert moved.json["next_attempt_at"] == moved.json["execute_at"] < in_days(conn, 0)


@pytest.mark.parametrize("branch", ["clicked", "expired"])
def test_a_wait_is_run_now_with_the_branch_that_it_takes(moderator, conn, tenant, branch):
    wait = a_later_wait(conn, tenant)

    moved = moderator.post(path(wait, "run-now"), json={"branch": branch})

    assert moved.status_code == 200
    assert (moved.json["branch"], moved.json["status"]) == (branch, "pending")


def test_a_wait_is_not_run_now_without_a_branch(moderator, conn, tenant):
    wait = a_later_wait(conn, tenant)

    for body in ({}, {"json": {}}):
        answer = moderator.post(path(wait, "run-now"), **body)
        assert problem(answer)[:2] == (400, "branch_missing")
        assert faults(answer) == [("/branch", "branch_missing")]
    answer = moderator.post(path(wait, "run-now"), json={"branch": "both"})
    assert problem(answer)[:2] == (400, "field_invalid")


def test_what_is_no_wait_takes_no_branch(moderator, action):
    answer = moderator.post(path(action, "run-now"), json={"branch": "clicked"})

    assert problem(answer)[:2] == (400, "branch_not_expected")


def test_a_wait_that_took_a_branch_takes_no_other(moderator, conn, tenant):
    wait = a_later_wait(conn, tenant, branch="clicked")

    answer = moderator.post(path(wait, "run-now"), json={"branch": "expired"})

    assert problem(answer)[:2] == (409, "branch_decided")


def test_a_wait_whose_link_was_clicked_is_not_made_to_expire(moderator, conn, tenant):
    wait = a_later_wait(conn, tenant, clicked_at=server_now(conn))

    answer = moderator.post(path(wait, "run-now"), json={"branch": "expired"})

    assert problem(answer)[:2] == (409, "link_clicked")
    answer = moderator.post(path(wait, "run-now"), json={"branch": "clicked"})
    assert answer.status_code == 200


def test_a_failed_action_is_retried_with_a_fresh_budget(moderator, conn, tenant):
    action_id = insert_action(conn, tenant.id, status="failed", attempts=4, starts=4)

    retried = moderator.post(path(action_id, "retry"))

    assert retried.status_code == 200
    assert (retried.json["status"], retried.json["attempts"], retried.json["error"]) == (
        "pending",
        0,
        None,
    )
    assert (retried.json["starts"], retried.json["retry_count"]) == (4, 0)


VERBS = {
    "changed": lambda who, one: who.patch(path(one), json={"execute_at": text_of(FAR_OFF)}),
    "cancelled": lambda who, one: who.post(path(one, "cancel")),
    "run now": lambda who, one: who.post(path(one, "run-now")),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", STATUSES[1:])
def test_only_a_pending_action_may_be_moved(verb, status, moderator, conn, tenant):
    action_id = insert_action(conn, tenant.id, status=status)

    answer = VERBS[verb](moderator, action_id)

    detail = f"scheduled action {action_id} is {status}; only pending ones can be {verb}"
    assert problem(answer) == (409, "action_not_pending", detail)


@pytest.mark.parametrize("status", ["pending", "processing", "done", "cancelled"])
def test_only_a_failed_action_may_be_retried(status, moderator, conn, tenant):
    action_id = insert_action(conn, tenant.id, status=status)

    answer = moderator.post(path(action_id, "retry"))

    detail = f"scheduled action {action_id} is {status}; only failed ones can be retried"
    assert problem(answer) == (409, "action_not_failed", detail)


def test_what_a_filter_finds_is_counted_and_cancelled(moderator, conn, tenant):
    contact = insert_line_user(conn, tenant.id)
    mine = [insert_action(conn, tenant.id, line_user_id=contact) for _ in range(3)]
    insert_action(conn, tenant.id, line_user_id=contact, status="done")
    other = insert_action(conn, tenant.id)
    body = {"line_user_id": contact}

    counted = moderator.post(f"{ACTIONS}/cancel", json=body | {"dry_run": True})
    assert counted.json == {"matched": 3, "cancelled": 0}
    assert set(ids(moderator.get(f"{ACTIONS}?status=pending"))) == {*mine, other}
    cancelled = moderator.post(f"{ACTIONS}/cancel", json=body)

    assert cancelled.json == {"matched": 3, "cancelled": 3}
    assert ids(moderator.get(f"{ACTIONS}?status=pending")) == [other]


def test_a_bulk_cancel_keeps_its_limit(moderator, conn, tenant, monkeypatch):
    monkeypatch.setattr("shared.usecases.manage_actions.MAX_CANCELLED", 2)
    made = [insert_action(conn, tenant.id) for _ in range(3)]

    answer = moderator.post(f"{ACTIONS}/cancel", json={"from": text_of(LONG_AGO)})

    assert answer.json == {"matched": 3, "cancelled": 2}
    assert ids(moderator.get(f"{ACTIONS}?status=pending")) == made[2:]


@pytest.mark.parametrize("body", [{}, {"dry_run": True}])
def test_an_empty_filter_cancels_nothing(body, moderator, action):
    answer = moderator.post(f"{ACTIONS}/cancel", json=body)

    assert problem(answer)[:2] == (400, "filter_empty")
    assert moderator.get(path(action)).json["status"] == "pending"


def test_nobody_reaches_an_action_of_another_tenant(stranger, moderator, conn, tenant, action):
    before = moderator.get(path(action)).json
    calls = [
        stranger.get(path(action)),
        stranger.patch(path(action), json={"execute_at": in_days(conn, 2)}),
        *(stranger.post(path(action, verb)) for verb in ("cancel", "run-now", "retry")),
    ]

    for answer in calls:
        assert problem(answer)[:2] == (404, "scheduled_action_not_found")
    assert ids(stranger.get(ACTIONS)) == []
    nothing = stranger.post(f"{ACTIONS}/cancel", json={"from": text_of(LONG_AGO)}).json
    assert nothing == {"matched": 0, "cancelled": 0}
    assert moderator.get(path(action)).json == before


def test_the_admin_names_the_tenant(admin, tenant, other_tenant, action):
    assert admin.get(f"{path(action)}?tenant={tenant.id}").status_code == 200
    assert problem(admin.get(f"{path(action)}?tenant={other_tenant.id}"))[0] == 404
    assert problem(admin.get(path(action)))[0] == 400


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_scheduled_actions_are_for_moderators(role, request, action):
    who = request.getfixturevalue(role)

    for answer in (who.get(ACTIONS), who.get(path(action)), who.post(path(action, "cancel"))):
        assert problem(answer)[0] == 403
