"""Reads the tables of cases in ``tests/cases``: JSON that needs no Python to be understood."""

import json
from datetime import datetime
from pathlib import Path

import pytest

_TABLES = Path(__file__).parents[2] / "cases"


def read_cases(table):
    """Return the rows of a table as test parameters, named by their ``case`` or what they hold."""
    rows = json.loads((_TABLES / f"{table}.json").read_text(encoding="utf-8"))
    return [pytest.param(row, id=_name(row)) for row in rows]


def an_instant(text):
    return None if text is None else datetime.fromisoformat(text)


def _name(row):
    if isinstance(row, dict) and row:
        words = [row.get("season"), row.get("case")]
        row = " ".join(word for word in words if word) or next(iter(row.values()))
    return json.dumps(row)
