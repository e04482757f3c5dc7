"""Real departures as the records of a table: a slice of the year, and a plain look at it."""

import csv
import gzip
from pathlib import Path

FILE = Path(__file__).parents[1] / "data/flights.csv.gz"

# Cancelled flights have no delay: the file says NA.
IMPORT = (FILE, "--null", "NA")

COLUMNS = {
    "carrier": "text",
    "flight": "number",
    "tailnum": "text",
    "origin": "text",
    "dest": "text",
    "scheduled_departure": "datetime",
    "departure_delay_minutes": "number",
    "arrival_delay_minutes": "number",
    "distance_miles": "number",
}


def an_hour_before_departure(*actions, carriers):
    """A trigger for the flights of these carriers."""
    return {
        "on": "schedule",
        "schedule": {
            "type": "date_column_reached",
            "column": "scheduled_departure",
            "offset_minutes": -60,
        },
        "when": [{"column": "carrier", "op": "in", "value": list(carriers)}],
        "actions": list(actions),
    }


def rows():
    """The rows of the file."""
    with gzip.open(FILE, "rt", newline="") as source:
        return list(csv.DictReader(source))


def count(*, carriers=None):
    """How many departures the file has, of these carriers."""
    return sum(carriers is None or row["carrier"] in carriers for row in rows())
