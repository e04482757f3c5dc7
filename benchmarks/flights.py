"""A year of departures: how fast do they get in, and how long until all that is due is done?

The file is the argument, or FLIGHTS in the environment: CSV, gzip too, as tests/data/README.md
describes it. Every row goes through the records endpoint; then the table gets a trigger an hour
before each departure of one carrier, an interval, a daily and a cron trigger, and a scanner and two
workers drain what is due. Counts are compared with those of plain SQL over the same file.
"""

import csv
import gzip
import json
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import NOTIFY
from benchmarks.measure.servers import running_database
from benchmarks.measure.services import running_api, running_scanner, running_worker
from services.cli.api import TABLES
from services.cli.chunks import MEDIA, cut
from shared.lifecycle import wait_until

CARRIER = "UA"
UPLOAD = 5000
WORKERS = 2
PATIENCE_SECONDS = 3600.0
# Beside a checkout, where whoever has the whole year may keep it.
USUAL = Path("../shared/data/flights.csv.gz")
SLICE = Path("tests/data/flights.csv.gz")

TYPES = {
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

COPY = "COPY record (tenant_id, table_id, data, created_at, updated_at) FROM STDIN"
MAKE_PLAIN = """
CREATE TEMPORARY TABLE flight (
    carrier text, flight int, tailnum text, origin text, dest text,
    scheduled_departure timestamp, departure_delay_minutes text, arrival_delay_minutes text,
    distance_miles int
)
"""
FILL_PLAIN = "COPY flight FROM STDIN WITH (FORMAT csv, HEADER)"
COUNT_PLAIN = """
SELECT count(*), count(*) FILTER (
    WHERE carrier = %s
        AND scheduled_departure - interval '60 min' <= clock_timestamp() AT TIME ZONE 'UTC'
)
FROM flight
"""
COUNT_RECORDS = "SELECT count(*) FROM record WHERE table_id = %s"
COUNT_RUNS = """
SELECT kind, count(*), count(*) FILTER (WHERE status = 'done')
FROM trigger_run
WHERE table_id = %s
GROUP BY kind
"""
# A cron trigger fires strictly after its save: the row is moved, so that a minute lies behind it.
SAVED_EARLIER = """
UPDATE trigger_state
SET anchor_at = anchor_at - interval '2 min', next_due_at = clock_timestamp()
WHERE table_id = %s AND kind = 'cron'
"""


def main():
    """Take one file through the whole product and print one table."""
    options = read_options(__doc__, sizes={}, paths={"file": "the departures, all of them"})
    path = the_file(options.file)
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    with running_database() as database, running_api(database) as (_, api):
        flights = Flights(database, api, data)
        rows = [*flights.bring_in(), *flights.drain()]
    report("flights", f"{path.name}: {flights.rows:,} departures", rows, options=options)
    if not all(row["as in SQL"] in ("", "yes") for row in rows):
        sys.exit("the counts differ from those of plain SQL")


def the_file(given):
    """Return the file to take: the whole year if it can be had, else the slice of the tests."""
    named = given or (Path(os.environ["FLIGHTS"]) if os.environ.get("FLIGHTS") else None)
    if named is not None:
        if not named.exists():
            sys.exit(f"there is no file {named}")
        return named
    if USUAL.exists():
        return USUAL
    print(
        f"Only the slice of the tests is taken, {SLICE}. For the whole year name its file, as "
        "argument or in FLIGHTS: the flights of the nycflights13 data set with the columns of "
        "tests/data/README.md."
    )
    return SLICE


def a_line(question, count, *, expected=None, seconds=None):
    """Return a line of the table."""
    return {
        "question": question,
        "count": count,
        "as in SQL": "" if expected is None else "yes" if count == expected else f"no: {expected}",
        "seconds": seconds and rounded(seconds),
        "per second": seconds and round(count / seconds),
    }


class Flights:
    """The departures on their way: as bytes, as records, as runs."""

    def __init__(self, database, api, data):
        self.database = database
        self.conn = database.conn
        self.api = api
        self.data = data
        self.conn.execute(MAKE_PLAIN)
        with self.conn.cursor().copy(FILL_PLAIN) as copy:
            copy.write(data)
        self.rows, self.due = self.conn.execute(COUNT_PLAIN, [CARRIER]).fetchone()
        columns = [{"name": name, "type": type} for name, type in TYPES.items()]
        self.table = api.call("POST", TABLES, body={"name": "flights", "columns": columns})

    def bring_in(self):
        """Yield how fast the rows get in by the endpoint, between two bare COPYs of the same."""
        ids = {column["name"]: column["id"] for column in self.table["columns"]}
        stored = [json.dumps(row) for row in cells(self.data, ids)]
        chunks = list(cut(self.data.splitlines(keepends=True), "csv", records=UPLOAD, null="NA"))
        first = self._copy(stored)
        self._empty()
        seconds = self._upload(chunks)
        count = self.conn.execute(COUNT_RECORDS, [self.table["id"]]).fetchone()[0]
        yield a_line("records by the endpoint", count, expected=self.rows, seconds=seconds)
        self._empty()
        copying = (first + self._copy(stored)) / 2
        yield a_line("bare COPY of the same rows", len(stored), seconds=copying)
        yield a_line("the endpoint's speed, of COPY's", rounded(copying / seconds))
        self._empty()
        self._upload(chunks, salt="for good")

    def drain(self):
        """Yield how long it takes until every run that is due has its receipt."""
        environment = {"DATABASE_URL": self.database.url}
        self.database.settle()
        with ExitStack() as stack:
            stack.enter_context(running_scanner(environment))
            for _ in range(WORKERS):
                stack.enter_context(running_worker(environment))
            before = time.perf_counter()
            self._set_triggers()
            drained = wait_until(self._is_drained, seconds=PATIENCE_SECONDS, every_seconds=0.2)
            seconds = time.perf_counter() - before
        if not drained:
            sys.exit(f"not drained after {PATIENCE_SECONDS:.0f} s: {self._runs()}")
        runs = self._runs()
        _, done = runs.pop("date_column_reached")
        yield a_line("runs of the date trigger", done, expected=self.due, seconds=seconds)
        for kind, (_, done) in sorted(runs.items()):
            yield a_line(f"runs of the {kind} trigger", done)

    def _set_triggers(self):
        triggers = [
            {
                "on": "schedule",
                "schedule": {
                    "type": "date_column_reached",
                    "column": "scheduled_departure",
                    "offset_minutes": -60,
                },
                "when": [{"column": "carrier", "op": "eq", "value": CARRIER}],
                "actions": [{**NOTIFY, "message": "$row.carrier $row.flight to $row.dest"}],
            },
            *(
                {"on": "schedule", "schedule": schedule, "actions": [{**NOTIFY, "message": "now"}]}
                for schedule in (
                    {"type": "interval", "every_seconds": 86_400},
                    {"type": "daily", "at": "00:00"},
                    {"type": "cron", "expression": "* * * * *"},
                )
            ),
        ]
        self.api.call("PUT", f"{TABLES}/{self.table['id']}/triggers", body={"triggers": triggers})
        self.conn.execute(SAVED_EARLIER, [self.table["id"]])

    def _runs(self):
        counted = self.conn.execute(COUNT_RUNS, [self.table["id"]])
        return {kind: (count, done) for kind, count, done in counted}

    def _is_drained(self):
        runs = self._runs()
        all_done = all(count == done for count, done in runs.values())
        return len(runs) == 4 and all_done and runs["date_column_reached"][0] >= self.due

    def _upload(self, chunks, salt="first"):
        path = f"{TABLES}/{self.table['id']}/records/bulk"
        before = time.perf_counter()
        for chunk in chunks:
            self.api.upload(path, chunk.body, media=MEDIA["csv"], key=chunk.key(salt=salt))
        return time.perf_counter() - before

    def _copy(self, stored):
        table, now = self.table, self.table["created_at"]
        lead, tail = f"{table['tenant_id']}\t{table['id']}\t", f"\t{now}\t{now}\n"
        # As the superuser: whom row level security binds, may not COPY.
        with self.database.admin() as admin:
            before = time.perf_counter()
            with admin.cursor() as cursor, cursor.copy(COPY) as copying:
                copying.write("".join(f"{lead}{row}{tail}" for row in stored))
            return time.perf_counter() - before

    def _empty(self):
        self.conn.execute("TRUNCATE record")
        self.database.settle()


def cells(data, ids):
    """Yield the rows as the product stores them: by column id, numbers as numbers."""
    for row in csv.DictReader(data.decode().splitlines()):
        yield {
            ids[name]: int(text) if TYPES[name] == "number" else text
            for name, text in row.items()
            if text not in ("", "NA")
        }


if __name__ == "__main__":
    main()
