"""What may be asked of triggers over HTTP, and what an alteration of their table breaks."""

import json

import pytest

from tests.integration.api.callers import COLUMNS, faults, new_table, problem

WEBHOOK = {"type": "webhook", "url": "https://example.com/hook"}
INTERVAL = {"type": "interval", "every_seconds": 3600}
DATE = {"type": "date_column_reached", "column": "到期時間"}
LONG_AGO, FAR_OFF = "2001-02-03 04:05", "2999-01-01"
DATE_ID, CLOCK_ID, EVENT_ID = (f"trg_00000000000{digit}" for digit in "abc")


def trigger(schedule=INTERVAL, *, actions=(WEBHOOK,), **parts):
    return {"on": "schedule", "schedule": schedule, "actions": list(actions), **parts}


@pytest.fixture
def asked(author, authored):
    """The path of a table with three triggers and two records."""
    triggers = [
        trigger(
            DATE, id=DATE_ID, when=[{"column": "amount", "op": "gt", "value": 5}], name="remind"
        ),
        trigger(id=CLOCK_ID),
        {"id": EVENT_ID, "on": "record_created", "actions": [WEBHOOK]},
    ]
    assert author.put(f"{authored}/triggers", json={"triggers": triggers}).status_code == 200
    for data in ({"到期時間": LONG_AGO, "amount": 7}, {"到期時間": LONG_AGO, "amount": 5}):
        assert author.post(f"{authored}/records", json={"data": data}).status_code == 201
    return authored


def records_of(who, table):
    return [record["id"] for record in who.get(f"{table}/records").json["items"]]


def simulate(who, table, *triggers, **options):
    return who.post(f"{table}/triggers/simulate", json={"triggers": list(triggers)}, **options)


def test_a_simulation_tells_arms_and_what_a_save_would_refuse_and_stores_nothing(author, asked):
    before = author.get(f"{asked}/triggers").json

    answer = simulate(author, asked, trigger(DATE), trigger(), trigger({"type": "x"}))

    assert answer.status_code == 200
    dated, clock, broken = answer.json["triggers"]
    assert (dated["due_now"], dated["records_scanned"], dated["trigger_id"]) == (2, 2, None)
    assert dated["oldest_due_at"] == "2001-02-03T04:05:00"
    assert len(clock["upcoming"]) == 10
    assert set(clock["upcoming"][0]) == {"at", "local", "offset", "notes"}
    assert broken["error_codes"] == ["unsupported_schedule_type"]
    assert [(one["pointer"], one["code"]) for one in answer.json["errors"]] == [
        ("/triggers/2/schedule/type", "unsupported_schedule_type")
    ]
    assert answer.json["live_records"] == 2
    assert author.get(f"{asked}/triggers").json == before


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/triggers"]),
        ({"triggers": 1}, ["/triggers"]),
        ({"triggers": [trigger()] * 101}, ["/triggers"]),
        ({"triggers": [], "more": 1}, ["/more"]),
    ],
)
def test_a_simulation_of_no_list_is_refused(moderator, table, body, pointers):
    answer = moderator.post(f"{table}/triggers/simulate", json=body)

    assert problem(answer)[0] == 400
    assert [pointer for pointer, _ in faults(answer)] == pointers


def test_numbers_out_of_range_are_refused_by_a_simulation_too(moderator, table):
    body = json.dumps({"triggers": [trigger(name="x")]}).replace('"x"', "1e999")

    answer = moderator.post(
        f"{table}/triggers/simulate", data=body, content_type="application/json"
    )

    assert problem(answer)[:2] == (400, "json_number_invalid")


def test_a_timeline_is_paged_and_each_cursor_is_of_its_range(author, asked):
    author.post(f"{asked}/records", json={"data": {"到期時間": "2999-01-02", "amount": 9}})
    path = f"{asked}/triggers/{DATE_ID}/timeline"
    span = "from=2998-06-01T00:00:00Z&to=2999-05-01T00:00:00Z"
    author.post(f"{asked}/records", json={"data": {"到期時間": FAR_OFF, "amount": 9}})

    first = author.get(f"{path}?{span}&limit=1")
    cursor = first.json["next_cursor"]
    second = author.get(f"{path}?{span}&limit=1&cursor={cursor}")

    assert (first.json["kind"], first.json["trigger_id"]) == ("date_column_reached", DATE_ID)
    assert (first.json["from"], first.json["to"]) == (
        "2998-06-01T00:00:00Z",
        "2999-05-01T00:00:00Z",
    )
    [item], [last] = first.json["items"], second.json["items"]
    assert item == {
        "phase": "ahead",
        "at": "2999-01-01T00:00:00Z",
        "record_id": records_of(author, asked)[-1],
        "identity": None,
        "by_run": None,
        "run": None,
        "window": None,
        "verdict": "due_now",
    }
    assert last["at"] == "2999-01-02T00:00:00Z"
    assert second.json["next_cursor"] is None
    other = author.get(f"{path}?from=2998-06-01T00:00:00Z&cursor={cursor}")
    assert problem(other)[:2] == (400, "cursor_invalid")


def test_the_timeline_of_an_event_has_its_runs_and_that_of_a_clock_its_windows(author, asked):
    runs = author.get(f"{asked}/triggers/{EVENT_ID}/timeline").json
    windows = author.get(f"{asked}/triggers/{CLOCK_ID}/timeline").json

    assert [item["record_id"] for item in runs["items"]] == records_of(author, asked)
    assert {item["run"]["status"] for item in runs["items"]} == {"pending"}
    assert len(windows["items"]) == 100
    assert windows["items"][0]["window"]["offset"] == "+00:00"
    assert windows["items"][0]["run"] is None


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("from=yesterday", "/from", "field_invalid"),
        ("to=2026-07-25", "/to", "field_invalid"),
        ("from=2026-07-25T09:00:00Z&to=2026-07-25T09:00:00Z", "/from", "range_empty"),
        ("from=2020-01-01T00:00:00Z&to=2026-07-25T09:00:00Z", "/from", "range_too_long"),
        ("limit=0", "/limit", "field_invalid"),
        ("since=2026-07-25T09:00:00Z", "/since", "field_unknown"),
    ],
)
def test_a_range_is_read_strictly(moderator, table, query, pointer, code):
    moderator.put(f"{table}/triggers", json={"triggers": [trigger(id=CLOCK_ID)]})

    answer = moderator.get(f"{table}/triggers/{CLOCK_ID}/timeline?{query}")

    assert problem(answer)[0] == 400
    assert faults(answer) == [(pointer, code)]


def test_why_tells_class_clause_and_cell(author, asked):
    due, refused = records_of(author, asked)
    path = f"{asked}/triggers/{DATE_ID}/why"

    told = author.get(f"{path}?record_id={due}").json
    not_told = author.get(f"{path}?record_id={refused}").json

    assert (told["verdict"], told["fires"], told["clause"]) == ("due_now", True, None)
    assert told["cell"] == {
        "column": "到期時間",
        "value": LONG_AGO,
        "identity": "2001-02-03 04:05",
        "instant": "2001-02-03T04:05:00Z",
        "fire_at": "2001-02-03T04:05:00Z",
    }
    assert (not_told["verdict"], not_told["fires"]) == ("when_filter_mismatch", False)
    assert not_told["clause"] == {
        "index": 0,
        "predicate": {"column": "amount", "op": "gt", "value": 5},
        "cell": 5,
    }


def test_why_of_a_clock_and_of_an_event(author, asked):
    [record, _] = records_of(author, asked)

    clock = author.get(f"{asked}/triggers/{CLOCK_ID}/why").json
    event = author.get(f"{asked}/triggers/{EVENT_ID}/why?record_id={record}").json

    assert (clock["verdict"], clock["fires"], clock["record_id"]) == ("due_now", True, None)
    assert clock["window"]["at"] == clock["anchor_at"] == clock["due_at"]
    assert (event["verdict"], event["kind"]) == ("matches", "record_created")
    assert event["last_run"]["status"] == "pending"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("{date}/why", 400, "record_missing"),
        ("{clock}/why?record_id=1", 400, "record_not_expected"),
        ("{date}/why?record_id=0", 400, "field_invalid"),
        ("{date}/why?record_id=x", 400, "field_invalid"),
        ("{date}/why?record_id=9223372036854775807", 404, "record_not_found"),
        ("trg_ffffffffffff/why?record_id=1", 404, "trigger_not_found"),
        ("trg_ffffffffffff/timeline", 404, "trigger_not_found"),
        ("trg_xyz/timeline", 404, "not_found"),
    ],
)
def test_what_is_refused(moderator, table, path, status, code):
    triggers = [trigger(DATE, id=DATE_ID), trigger(id=CLOCK_ID)]
    moderator.put(f"{table}/triggers", json={"triggers": triggers})

    answer = moderator.get(f"{table}/triggers/{path.format(date=DATE_ID, clock=CLOCK_ID)}")

    told = problem(answer)
    assert told[0] == status
    assert code in (told[1], *[one for _, one in (faults(answer) if status == 400 else [])])


def test_a_trashed_table_and_strangers_and_other_roles(moderator, stranger, editor, table):
    moderator.put(f"{table}/triggers", json={"triggers": [trigger(id=CLOCK_ID)]})

    def ask(who):
        return [
            simulate(who, table, trigger()),
            who.get(f"{table}/triggers/{CLOCK_ID}/timeline"),
            who.get(f"{table}/triggers/{CLOCK_ID}/why"),
        ]

    assert [answer.status_code for answer in ask(moderator)] == [200] * 3
    assert [problem(answer)[:2] for answer in ask(editor)] == [(403, "role_missing")] * 3
    assert [problem(answer)[:2] for answer in ask(stranger)] == [(403, "tenant_forbidden")] * 3
    moderator.delete(table)
    assert [problem(answer)[:2] for answer in ask(moderator)] == [(404, "table_not_found")] * 3


def test_a_record_of_another_tenant_is_as_absent_as_none(moderator, stranger, tenant, table):
    moderator.put(f"{table}/triggers", json={"triggers": [trigger(DATE, id=DATE_ID)]})
    theirs, _ = new_table(stranger)
    stranger.post(f"{theirs}/records", json={"data": {"到期時間": LONG_AGO}})
    [record] = records_of(stranger, theirs)

    answer = moderator.get(f"{table}/triggers/{DATE_ID}/why?record_id={record}")

    assert problem(answer)[:2] == (404, "record_not_found")


def test_an_alteration_tells_what_it_breaks_and_a_dry_run_stores_nothing(author, asked):
    kept = [column for column in COLUMNS if column["name"] != "amount"]
    before = author.get(asked)

    dry = author.patch(f"{asked}?dry_run=true", json={"columns": kept})
    assert author.get(asked).json == before.json
    done = author.patch(asked, json={"columns": kept})

    [broken] = done.json["breaks"]
    assert (broken["kind"], broken["id"], broken["name"]) == ("trigger", DATE_ID, "remind")
    assert [(one["pointer"], one["code"]) for one in broken["errors"]] == [
        ("/when/0/column", "when_column_missing")
    ]
    assert broken["table_id"] == before.json["id"]
    assert dry.json["breaks"] == done.json["breaks"]
    assert dry.json["columns"] == done.json["columns"]
    assert dry.headers["ETag"] == before.headers["ETag"] != done.headers["ETag"]
    [arm, *_] = author.get(f"{asked}/triggers/schedule-preview").json["triggers"]
    assert arm["error_codes"] == ["when_column_missing"]
    assert author.patch(asked, json={"name": "x"}).json["breaks"] == []
    refused = author.patch(f"{asked}?dry_run=maybe", json={"name": "y"})
    assert faults(refused) == [("/dry_run", "field_invalid")]
