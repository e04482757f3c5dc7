import sys
from datetime import UTC, time

import pytest

from shared.errors import Fault, InvalidInput
from shared.schedule import ScheduleError, normal_form, parse_schedule
from shared.schedule.model import Cron, Daily, DateColumnReached, Interval
from shared.schedule.parse import schedule_faults
from shared.schedule.zones import find_zone
from tests.unit.schedule.case_tables import read_cases


@pytest.mark.parametrize("row", read_cases("schedule_accepted"))
def test_what_may_be_authored_is_read_without_fault(row):
    assert schedule_faults(row["schedule"]) == ()
    assert parse_schedule(row["schedule"]).kind == row["schedule"]["type"]


@pytest.mark.parametrize("row", read_cases("schedule_accepted"))
def test_the_stored_form_means_what_was_authored(row):
    stored = normal_form(row["schedule"])

    assert parse_schedule(stored) == parse_schedule(row["schedule"])
    assert hash(parse_schedule(stored)) == hash(parse_schedule(row["schedule"]))


@pytest.mark.parametrize("row", read_cases("schedule_refused"))
def test_every_fault_is_told_with_its_code_place_and_message(row):
    expected = tuple(
        Fault(code=code, pointer=pointer, message=message)
        for code, pointer, message in row["faults"]
    )

    assert schedule_faults(row["schedule"]) == expected


@pytest.mark.parametrize("row", read_cases("schedule_refused"))
def test_the_error_is_the_first_fault_and_carries_them_all(row):
    code, _, message = row["faults"][0]

    with pytest.raises(ScheduleError) as caught:
        parse_schedule(row["schedule"])

    assert isinstance(caught.value, InvalidInput)
    assert (caught.value.code, caught.value.message, str(caught.value)) == (code, message, message)
    assert caught.value.faults == schedule_faults(row["schedule"])


@pytest.mark.parametrize("row", read_cases("cron_refused"))
def test_a_cron_expression_is_refused_with_the_field_and_the_text(row):
    with pytest.raises(ScheduleError) as caught:
        parse_schedule({"type": "cron", "expression": row["expression"]})

    assert caught.value.code == "cron_expression_invalid"
    assert caught.value.message == f"cron schedule invalid: {row['reason']}"


def test_parsed_values_hold_what_was_authored():
    taipei = find_zone("Asia/Taipei")

    assert parse_schedule({"type": "interval", "every_seconds": 3600}) == Interval(
        every_seconds=3600
    )
    assert parse_schedule({"type": "daily", "at": "01:30"}) == Daily(at=time(1, 30), zone=UTC)
    assert parse_schedule(
        {"type": "date_column_reached", "column": "到期時間", "offset_minutes": -1440}
    ) == DateColumnReached(column="到期時間", offset_minutes=-1440)
    cron = parse_schedule(
        {"type": "cron", "expression": " 0  9 * * 1-5", "timezone": "Asia/Taipei"}
    )
    assert isinstance(cron, Cron)
    assert (cron.expression, cron.zone) == ("0 9 * * 1-5", taipei)


@pytest.mark.parametrize("row", read_cases("schedule_normal_form"))
def test_the_normal_form_drops_written_defaults_and_nothing_else(row):
    normal = normal_form(row["authored"])

    # repr, since 0 == False == 0.0 == -0.0, and to compare the order of the keys.
    assert repr(normal) == repr(row["stored"])


@pytest.mark.parametrize("row", read_cases("schedule_normal_form"))
def test_the_normal_form_of_a_normal_form_is_itself(row):
    assert repr(normal_form(row["stored"])) == repr(row["stored"])


def test_the_normal_form_leaves_the_authored_document_as_it_is():
    authored = {"type": "cron", "expression": " 0  9 * * *", "timezone": "UTC"}

    normal_form(authored)

    assert authored == {"type": "cron", "expression": " 0  9 * * *", "timezone": "UTC"}


def test_a_type_nested_too_deep_to_be_written_out_is_refused_all_the_same():
    deep = []
    for _ in range(sys.getrecursionlimit() * 20):
        deep = [deep]

    assert schedule_faults({"type": deep})[0].code == "unsupported_schedule_type"


def test_numbers_of_thousands_of_digits_are_refused_where_they_are_too_large():
    huge = 10**5000

    assert schedule_faults({"type": huge})[0].code == "unsupported_schedule_type"
    assert schedule_faults({"type": "interval", "every_seconds": huge})[0].pointer == (
        "/every_seconds"
    )
    with pytest.raises(ScheduleError, match=r"minute '9{60}…' is outside 0-59"):
        parse_schedule({"type": "cron", "expression": "9" * 5000 + " * * * *"})


def test_numbers_of_thousands_of_digits_are_read_where_they_are_not():
    zeros = "0" * 5000

    assert parse_schedule({"type": "cron", "expression": f"{zeros}5 * * * *"})
    assert parse_schedule({"type": "cron", "expression": f"*/{'9' * 5000} * * * *"})


def test_a_field_as_long_as_a_body_is_refused():
    expression = f"* {'*/1,' * 2500}* * * *"

    with pytest.raises(ScheduleError) as refused:
        parse_schedule({"type": "cron", "expression": expression})

    assert refused.value.message.startswith("cron schedule invalid: hour '*/1,*/1,")
    assert refused.value.message.endswith("has more than 10000 characters")


def test_a_long_unknown_key_is_cut_in_the_message():
    fault = schedule_faults({"type": "interval", "every_seconds": 60, "k" * 5000: 1})[0]

    assert len(fault.message) < 200
