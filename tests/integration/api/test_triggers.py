import json
from uuid import uuid4

import pytest

from tests.integration.api.callers import faults, new_table, problem

WEBHOOK = {"type": "webhook", "url": "https://example.com/hook"}
INTERVAL = {"type": "interval", "every_seconds": 3600}
CRON = {"type": "cron", "expression": "0 9 * * *"}
DATE = {"type": "date_column_reached", "column": "到期時間"}


def trigger(schedule=INTERVAL, *, actions=(WEBHOOK,), **parts):
    return {"on": "schedule", "schedule": schedule, "actions": list(actions), **parts}


def set_triggers(who, table, *triggers, **options):
    return who.put(f"{table}/triggers", json={"triggers": list(triggers)}, **options)


def test_saved_triggers_are_read_back_in_normal_form(author, authored):
    daily = {"type": "daily", "at": "01:30", "timezone": "UTC"}
    date = {**DATE, "offset_minutes": 0}

    saved = set_triggers(author, authored, trigger(daily, name="早"), trigger(date))

    assert saved.status_code == 200
    assert author.get(f"{authored}/triggers").json == saved.json
    assert [one["schedule"] for one in saved.json["triggers"]] == [
        {"type": "daily", "at": "01:30"},
        DATE,
    ]
    assert all(one["id"].startswith("trg_") for one in saved.json["triggers"])


def test_a_table_without_triggers_has_an_empty_list(author, authored):
    found = author.get(f"{authored}/triggers")

    assert found.json["triggers"] == []
    assert found.headers["ETag"] == '"1"'


def test_a_save_of_a_stale_revision_is_refused(author, authored):
    first = set_triggers(author, authored, trigger())

    stale = set_triggers(author, authored, headers={"If-Match": '"1"'})
    present = set_triggers(author, authored, headers={"If-Match": first.headers["ETag"]})

    assert problem(stale)[:2] == (412, "stale_version")
    assert present.status_code == 200


CONTRACT = [
    pytest.param(
        {"type": "monthly"},
        "invalid schedule type 'monthly'. valid types: date_column_reached, interval, daily, cron",
        id="type",
    ),
    *(
        pytest.param(
            {**DATE, "offset_minutes": offset},
            "date_column_reached offset_minutes must be an integer in [-43200, 43200]"
            " (negative = before the column instant, positive = after)",
            id=f"offset {offset!r}",
        )
        for offset in (True, 1.0, "5", 43201, None)
    ),
    pytest.param(
        {"type": "daily", "at": "01:30", "timezone": 8},
        "daily schedule timezone must be an IANA name string (e.g. 'Asia/Taipei')",
        id="daily timezone",
    ),
    pytest.param(
        {"type": "daily", "at": "01:30", "timezone": "Asia/Nowhere"},
        "daily schedule timezone 'Asia/Nowhere' is not a known IANA zone."
        " use an IANA name like 'Asia/Taipei' or 'America/New_York'",
        id="daily zone",
    ),
    pytest.param(
        {**CRON, "timezone": None},
        "cron schedule timezone must be an IANA name string (e.g. 'Asia/Taipei')",
        id="cron timezone",
    ),
    pytest.param(
        {**CRON, "timezone": "../etc/passwd"},
        "cron schedule timezone '../etc/passwd' is not a known IANA zone."
        " use an IANA name like 'Asia/Taipei' or 'America/New_York'",
        id="cron zone",
    ),
]


@pytest.mark.parametrize(("schedule", "message"), CONTRACT)
def test_a_refused_schedule_has_the_contract_message_and_changes_nothing(
    schedule, message, author, authored
):
    answer = set_triggers(author, authored, trigger(), trigger(schedule))

    assert problem(answer)[0] == 400
    assert answer.json["detail"] == message
    assert author.get(f"{authored}/triggers").json["triggers"] == []


@pytest.mark.parametrize("offset", [str(2**63), "-1" + "0" * 30, "1" + "0" * 5000, "1e400"])
def test_an_offset_beyond_all_bounds_has_the_contract_message(offset, moderator, table):
    body = json.dumps({"triggers": [trigger({**DATE, "offset_minutes": "?"})]})

    answer = moderator.put(
        f"{table}/triggers", data=body.replace('"?"', offset), content_type="application/json"
    )

    status, code, detail = problem(answer)
    assert (status, code) == (400, "offset_minutes_invalid")
    assert detail == (
        "date_column_reached offset_minutes must be an integer in [-43200, 43200]"
        " (negative = before the column instant, positive = after)"
    )


NO_RECORD = "interval/daily schedule triggers fire with no record"
ACTIONS = [
    pytest.param(
        trigger(CRON, when=[{"column": "amount", "op": "eq", "value": 1}]),
        "cron_when_not_allowed: cron schedules are recordless and take no when predicates",
        id="cron when",
    ),
    pytest.param(
        trigger(CRON, actions=[{**WEBHOOK, "payload": {"x": ["$row.amount"]}}]),
        "cron schedules are recordless — '$row' tokens and row-targeted actions are invalid",
        id="cron token",
    ),
    pytest.param(
        trigger(CRON, actions=[{"type": "delete_record", "target": "$row"}]),
        "cron schedules are recordless — '$row' tokens and row-targeted actions are invalid",
        id="cron row action",
    ),
    pytest.param(
        trigger(actions=[{"type": "delete_record", "target": 5}]),
        f"delete_record requires record context — {NO_RECORD}",
        id="interval delete",
    ),
    pytest.param(
        trigger(actions=[{"type": "update_record", "data": {"amount": 1}}]),
        f"update_record requires record context — {NO_RECORD}",
        id="interval update",
    ),
    pytest.param(
        trigger(
            actions=[{"type": "invoke_command", "command": "send", "inputs": {"to": "$row.amount"}}]
        ),
        f"invoke_command input 'to': \"$row\" tokens require record context — {NO_RECORD}",
        id="interval input",
    ),
]


@pytest.fixture
def command(moderator):
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    body = {"name": "send", "url": "https://example.com/send", "input_schema": schema}
    assert moderator.post("/v1/commands", json=body).status_code == 201


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(("refused", "message"), ACTIONS)
def test_a_refused_action_has_the_contract_message_and_changes_nothing(
    refused, message, author, authored
):
    answer = set_triggers(author, authored, refused)

    assert problem(answer)[0] == 400
    assert answer.json["detail"] == message
    assert author.get(f"{authored}/triggers").json["triggers"] == []


def test_another_schedule_type_under_the_same_id_is_refused(author, authored):
    id = set_triggers(author, authored, trigger()).json["triggers"][0]["id"]

    answer = set_triggers(author, authored, trigger(CRON, id=id))

    assert problem(answer) == (
        400,
        "schedule_kind_change_requires_new_trigger_id",
        f"schedule_kind_change_requires_new_trigger_id: trigger '{id}' changes its schedule type"
        " in place. retire the old trigger id and create the new schedule kind under a new"
        " trigger id",
    )


def test_faults_of_all_triggers_are_told_in_document_order(author, authored):
    answer = set_triggers(
        author,
        authored,
        trigger({"type": "interval", "every_seconds": True}),
        trigger(id="trg_1"),
        trigger(actions=[{"type": "nope"}]),
        trigger(surplus=1),
    )

    assert problem(answer)[0] == 400
    pointers = [pointer for pointer, _ in faults(answer)]
    assert [pointer.split("/")[2] for pointer in pointers] == ["0", "1", "2", "3"]
    assert pointers[0] == "/triggers/0/schedule/every_seconds"


@pytest.mark.parametrize(
    "triggers", [None, {}, "x", [None], ["x"], [[]], [{}], [{"on": []}], [{"on": "schedule"}]]
)
def test_what_is_no_list_of_triggers_is_refused(triggers, author, authored):
    answer = author.put(f"{authored}/triggers", json={"triggers": triggers})

    assert problem(answer)[0] == 400
    assert all(pointer.startswith("/triggers") for pointer, _ in faults(answer))


def test_an_id_twice_is_refused(author, authored):
    one = trigger(id="trg_0123456789ab")

    assert problem(set_triggers(author, authored, one, one))[:2] == (400, "trigger_id_duplicate")


def test_preview_tells_each_trigger_in_the_form_of_the_contract(author, authored):
    set_triggers(author, authored, trigger(DATE), trigger(when=[]), trigger(CRON))
    for cell in ("2020-01-01", "2999-01-01", "soon", None):
        author.post(f"{authored}/records", json={"data": {"到期時間": cell}})

    answer = author.get(f"{authored}/triggers/schedule-preview?record_limit=3")

    assert answer.status_code == 200
    found = answer.json
    assert set(found) == {"table_id", "evaluated_at", "live_records", "record_limit", "triggers"}
    assert (found["live_records"], found["record_limit"]) == (4, 3)
    assert len(found["evaluated_at"]) == len("2026-08-27T05:02:13")
    date, interval, cron = found["triggers"]
    assert date == {
        "kind": "date_column_reached",
        "trigger_id": date["trigger_id"],
        "config_status": "valid",
        "records_scanned": 3,
        "already_fired": 0,
        "missing_schedule_value": 0,
        "invalid_schedule_value": 1,
        "scheduled_for_future": 1,
        "when_filter_mismatch": 0,
        "due_now": 1,
        "unscanned": 1,
        "truncated": True,
        "warnings": [],
    }
    assert set(interval) == {
        "kind",
        "trigger_id",
        "config_status",
        "last_consumed_window_at",
        "due_at",
        "due_now",
        "active_run",
        "warnings",
    }
    assert (interval["kind"], interval["due_now"], interval["active_run"]) == (
        "interval",
        True,
        False,
    )
    assert (cron["kind"], cron["due_at"], cron["due_now"]) == ("cron", None, False)


def test_preview_of_a_broken_stored_trigger_is_an_arm_of_its_own(author, authored, conn):
    set_triggers(author, authored, trigger(), trigger())
    conn.execute(
        "UPDATE custom_table"
        " SET triggers = jsonb_set(triggers, '{0,schedule}', '{\"type\": \"monthly\"}')"
    )

    broken, healthy = author.get(f"{authored}/triggers/schedule-preview").json["triggers"]

    assert broken == {
        "kind": "invalid",
        "trigger_id": broken["trigger_id"],
        "config_status": "invalid",
        "stored_schedule_type": "monthly",
        "error_codes": ["unsupported_schedule_type"],
        "warnings": [],
    }
    assert healthy["kind"] == "interval"


@pytest.mark.parametrize("limit", ["0", "10001", "x", "-1", "1.5", ""])
def test_preview_takes_a_limit_of_a_tick(limit, author, authored):
    answer = author.get(f"{authored}/triggers/schedule-preview?record_limit={limit}")

    assert problem(answer)[0] == 400


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_triggers_are_for_moderators_reading_included(role, caller, tenant, table):
    who = caller(tenant, role)

    for answer in (
        who.get(f"{table}/triggers"),
        set_triggers(who, table),
        who.get(f"{table}/triggers/schedule-preview"),
        who.get(f"{table}/trigger-runs"),
    ):
        assert problem(answer)[:2] == (403, "role_missing")


def test_preview_of_an_absent_table_is_404_and_of_anothers_403(moderator, stranger, table):
    absent = f"{moderator.tables}/{uuid4()}/triggers/schedule-preview"

    assert problem(moderator.get(absent))[:2] == (404, "table_not_found")
    assert problem(stranger.get(f"{table}/triggers/schedule-preview"))[:2] == (
        403,
        "tenant_forbidden",
    )


def test_actions_of_a_channel_may_not_reach_out_of_it(moderator, channel_moderator, tenant):
    path, table = new_table(channel_moderator)
    sister, outside = new_table(channel_moderator)[1]["id"], new_table(moderator)[1]["id"]

    def creating(*tables):
        actions = [{"type": "create_record", "table_id": one, "data": {}} for one in tables]
        return trigger(actions=actions)

    refused = set_triggers(channel_moderator, path, creating(table["id"], sister, outside))
    of_the_tenant = path.replace("/channel/", "/tenant/")
    granted = set_triggers(moderator, of_the_tenant, creating(outside.upper()))
    kept = set_triggers(channel_moderator, path, creating(outside), *granted.json["triggers"])

    assert faults(refused) == [("/triggers/0/actions/2/table_id", "action_table_unknown")]
    assert (granted.status_code, kept.status_code) == (200, 200)


def test_actions_may_not_reach_into_another_tenant(moderator, stranger, table):
    theirs = new_table(stranger)[1]["id"]
    create = {"type": "create_record", "table_id": theirs, "data": {}}

    assert problem(set_triggers(moderator, table, trigger(actions=[create])))[0] == 400
