"""materialize_slots over HTTP: refused where it cannot do its work, previewed where it can."""

import pytest

from tests.integration.api.callers import faults, new_table

LINES = [
    {"name": "room", "type": "text"},
    {"name": "weekday", "type": "number"},
    {"name": "day", "type": "date"},
    {"name": "from", "type": "text"},
    {"name": "to", "type": "text"},
]
SLOTS = [
    {"name": "room", "type": "text"},
    {"name": "from", "type": "datetime"},
    {"name": "to", "type": "datetime"},
    {"name": "status", "type": "select", "options": ["open"]},
]
DAILY = {"type": "daily", "at": "00:00"}


def a_trigger(roster, slots, *, schedule=DAILY, **parts):
    names = {"resource": "room", "start": "from", "end": "to"}
    action = {
        "type": "materialize_slots",
        "roster": {"table_id": roster["id"], "weekday": "weekday", **names},
        "target": {"table_id": slots["id"], "status": "status", **names},
        "slot_minutes": 60,
        "horizon_days": 14,
    }
    return {"on": "schedule", "schedule": schedule, "actions": [action]} | parts


@pytest.fixture
def tables(author, tenant):
    """The path and the document of a roster, and the document of a table of slots."""
    path, roster = new_table(author, tenant=tenant, name="roster", columns=LINES)
    _, slots = new_table(author, tenant=tenant, name="slots", columns=SLOTS)
    return path, roster, slots


def test_a_moderator_sees_what_would_be_made(author, tables):
    path, roster, slots = tables
    for line in ({"room": "a", "from": "09:00", "to": "11:00"}, {"room": "a", "from": "9"}):
        data = {"weekday": 1, **line}
        assert author.post(f"{path}/records", json={"data": data}).status_code == 201
    saved = author.put(f"{path}/triggers", json={"triggers": [a_trigger(roster, slots)]})
    [trigger] = saved.json["triggers"]

    answer = author.get(f"{path}/triggers/slots-preview")

    assert answer.status_code == 200
    [action] = answer.json["actions"]
    assert action["trigger_id"] == trigger["id"]
    assert action["pointer"] == "/actions/0"
    # Of today's, some may have begun.
    assert 2 <= action["created"] <= 4
    assert (action["kept"], action["pruned"], action["invalid"]) == (0, 0, 1)
    assert (action["error"], action["truncated"]) == (None, False)


def test_the_preview_tells_why_it_would_fail(author, tables):
    path, roster, slots = tables
    author.put(f"{path}/triggers", json={"triggers": [a_trigger(roster, slots)]})
    author.delete(f"{author.tables}/{slots['id']}")

    [action] = author.get(f"{path}/triggers/slots-preview").json["actions"]

    assert action["created"] is None
    assert action["error"] == "materialize_slots target table_id names no table of this tenant"
    assert action["truncated"] is False


def test_a_table_without_such_actions_has_none_to_preview(author, authored):
    assert author.get(f"{authored}/triggers/slots-preview").json["actions"] == []


def test_an_editor_sees_no_preview(editor, table):
    assert editor.get(f"{table}/triggers/slots-preview").status_code == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": {"type": "interval", "every_seconds": 3600}},
        {"schedule": {"type": "cron", "expression": "0 0 * * *"}},
        {"schedule": {"type": "date_column_reached", "column": "day"}},
        {"on": "record_created", "schedule": None},
    ],
)
def test_only_a_daily_trigger_may_have_it(moderator, wrong):
    path, roster = new_table(moderator, name="roster", columns=LINES)
    _, slots = new_table(moderator, name="slots", columns=SLOTS)
    trigger = {
        key: value for key, value in a_trigger(roster, slots, **wrong).items() if value is not None
    }

    answer = moderator.put(f"{path}/triggers", json={"triggers": [trigger]})

    assert answer.status_code == 400
    assert faults(answer) == [("/triggers/0/actions/0/type", "daily_only")]


def test_a_table_that_asks_for_approval_takes_no_slots(moderator):
    path, roster = new_table(moderator, name="roster", columns=LINES)
    _, slots = new_table(moderator, name="slots", columns=SLOTS, approval="required")

    answer = moderator.put(f"{path}/triggers", json={"triggers": [a_trigger(roster, slots)]})

    assert answer.status_code == 400
    assert faults(answer) == [("/triggers/0/actions/0/target/table_id", "slots_need_approval")]


def test_an_author_of_a_channel_names_far_tables_only_where_they_were_named_before(
    moderator, channel_moderator
):
    near, roster = new_table(channel_moderator, name="roster", columns=LINES)
    _, slots = new_table(moderator, name="slots", columns=SLOTS)
    body = {"triggers": [a_trigger(roster, slots)]}
    path = f"{near}/triggers"

    answer = channel_moderator.put(path, json=body)
    assert faults(answer) == [("/triggers/0/actions/0/target/table_id", "action_table_unknown")]
    above = f"{moderator.tables}/{roster['id']}/triggers"
    saved = moderator.put(above, json=body).json["triggers"]

    assert channel_moderator.put(path, json={"triggers": saved}).status_code == 200
