"""Each error code of the preview (spec 1 §8), by the way that leads to it where there is one.

What a save would refuse is simulated, which is a way, and planted: as an older or a newer release
may have stored it.
"""

import pytest
from psycopg.types.json import Jsonb

from shared.domain.triggers import ERROR_CODES
from shared.usecases.manage_tables import alter_table
from shared.usecases.preview import preview
from shared.usecases.simulate import simulate
from tests.builders import a_stored_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    CRON,
    DAILY,
    DATE,
    INTERVAL,
    OTHER_ID,
    a_known,
    arm,
    save,
)

TITLED = [{"column": "title", "op": "contains", "value": "a"}]

# What an author can write: simulated, and planted.
WRITTEN = {
    "trigger_id_duplicate": [a_known(), a_known()],
    "schedule_object_missing": [a_known(schedule=None)],
    "stored_schedule_invalid": [a_known(schedule={**INTERVAL, "colour": "red"})],
    "unsupported_schedule_type": [a_known(schedule={"type": "monthly"})],
    "schedule_column_missing": [a_known(schedule={**DATE, "column": "gone"})],
    "schedule_column_wrong_type": [a_known(schedule={**DATE, "column": "amount"})],
    "offset_minutes_invalid": [a_known(schedule={**DATE, "offset_minutes": False})],
    "interval_seconds_invalid": [a_known(schedule={**INTERVAL, "every_seconds": 59})],
    "daily_time_invalid": [a_known(schedule={**DAILY, "at": "9:00"})],
    "cron_expression_invalid": [a_known(schedule={**CRON, "expression": "0 9 * * 7"})],
    "cron_when_not_allowed": [a_known(schedule=CRON, when=TITLED)],
    "when_column_missing": [a_known(schedule=DATE, when=[{"column": "x", "op": "not_empty"}])],
    "when_predicate_invalid": [a_known(schedule=DATE, when=[{"column": "due", "op": "like"}])],
    "timezone_invalid": [a_known(schedule={**DAILY, "timezone": "Mars/Olympus"})],
}

# What becomes of a valid trigger when the columns of its table change.
ALTERED = {
    "schedule_column_missing": {"due": None},
    "schedule_column_wrong_type": {"due": "text"},
    "when_column_missing": {"title": None},
    "when_predicate_invalid": {"title": "number"},
}


def _plant(conn, table, triggers):
    """Store triggers as nobody could save them."""
    stored = [a_stored_trigger() | trigger for trigger in triggers]
    conn.execute("UPDATE custom_table SET triggers = %s WHERE id = %s", [Jsonb(stored), table.id])


def _codes(arms):
    return {tuple(one["error_codes"]) for one in arms if one["kind"] == "invalid"}


@pytest.mark.parametrize("code", WRITTEN)
def test_a_code_that_an_author_meets_in_a_simulation_and_a_reader_in_the_preview(conn, code):
    table = insert_table(conn)
    healthy = a_known(id=OTHER_ID)
    save(conn, table, healthy)

    simulated = simulate(conn, table, [*WRITTEN[code], healthy], now=NOW).triggers
    _plant(conn, table, [*WRITTEN[code], healthy])
    previewed = preview(conn, table, now=NOW).triggers

    for arms in (simulated, previewed):
        assert _codes(arms) == {(code,)}
        assert (arms[-1]["kind"], arms[-1]["trigger_id"]) == ("interval", OTHER_ID)


@pytest.mark.parametrize("code", ALTERED)
def test_a_code_that_an_alteration_of_the_table_leads_to(conn, code):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE, when=TITLED))
    columns = [
        {**column.to_json(), "type": ALTERED[code].get(column.name, column.type)}
        for column in table.columns
    ]

    alter_table(
        conn, table.id, raw_columns=[one for one in columns if one["type"] is not None], now=NOW
    )

    assert arm(conn, table)["error_codes"] == [code]


def test_a_stored_trigger_without_an_id(conn):
    table = insert_table(conn)
    nameless = {key: value for key, value in a_stored_trigger().items() if key != "id"}
    conn.execute("UPDATE custom_table SET triggers = %s", [Jsonb([nameless])])

    assert arm(conn, table)["error_codes"] == ["trigger_id_missing"]


def test_a_trigger_whose_state_is_gone(conn):
    table = insert_table(conn)
    save(conn, table, a_known())
    conn.execute("DELETE FROM trigger_state")

    assert arm(conn, table)["error_codes"] == ["schedule_state_missing"]


def test_every_code_has_its_test():
    alone = {"trigger_id_missing", "schedule_state_missing"}

    assert {*WRITTEN, *ALTERED, *alone} == set(ERROR_CODES)
