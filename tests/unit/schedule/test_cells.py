from datetime import UTC

import pytest

from shared.schedule import fire_at, parse_cell
from shared.schedule.cells import DateCell, is_missing
from tests.unit.schedule.case_tables import an_instant, read_cases

COLUMN_TYPES = ("date", "datetime")


@pytest.mark.parametrize("row", read_cases("cells"))
@pytest.mark.parametrize("column_type", COLUMN_TYPES)
def test_a_cell_is_read_as_naive_utc(row, column_type):
    identity = row[column_type]
    minute = identity if " " in identity else f"{identity} 00:00"

    cell = parse_cell(row["cell"], column_type)

    assert cell == DateCell(an_instant(f"{minute}Z"), identity)
    assert cell.instant.tzinfo is UTC


@pytest.mark.parametrize("cell", read_cases("cells_invalid"))
@pytest.mark.parametrize("column_type", COLUMN_TYPES)
def test_all_else_is_invalid(cell, column_type):
    assert parse_cell(cell, column_type) is None
    assert not is_missing(cell)


@pytest.mark.parametrize("cell", [None, "", " ", "\t", "\r\n", " \v\f "])
@pytest.mark.parametrize("column_type", COLUMN_TYPES)
def test_null_empty_and_blank_are_missing(cell, column_type):
    assert is_missing(cell)
    assert parse_cell(cell, column_type) is None


def test_cells_that_differ_only_in_seconds_are_one_identity_and_come_due_together():
    early, late = (parse_cell(f"2026-07-25T09:00:{s}", "datetime") for s in ("00", "59.9"))

    assert early == late


def test_a_column_that_becomes_a_date_column_has_new_identities():
    cell = "2026-07-25T09:00"

    assert parse_cell(cell, "datetime").identity != parse_cell(cell, "date").identity
    assert parse_cell(cell, "datetime").instant.hour == 9
    assert parse_cell(cell, "date").instant.hour == 0


@pytest.mark.parametrize("row", read_cases("fire_instants"))
def test_a_cell_fires_at_its_instant_plus_the_offset(row):
    cell = parse_cell(row["cell"], "datetime")

    assert fire_at(cell.instant, row["offset_minutes"]) == an_instant(row["fire_at"])
