"""How fast do records get in through the API, beside a bare COPY of the same rows?

Uploads of JSON Lines and of CSV to gunicorn, each row read strictly and stored in batches, into a
table without triggers and into one with a date trigger, whose due index is kept; beside COPY into
the same table with the same indexes. The rows look like a year of departures.
"""

import csv
import io
import json
import random
from datetime import UTC, datetime, timedelta

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_table, date_trigger
from benchmarks.measure.servers import running_database
from benchmarks.measure.services import running_api
from benchmarks.measure.turns import Side, in_turns
from services.cli.api import TABLES
from services.cli.chunks import MEDIA, cut
from shared.domain.columns import Column

ROUNDS = 5
UPLOAD = 5000
COLUMNS = tuple(
    Column(id=f"c{number}", name=name, type=type)
    for number, (name, type) in enumerate(
        {
            "carrier": "text",
            "flight": "number",
            "tail": "text",
            "origin": "text",
            "destination": "text",
            "due": "datetime",
            "delay": "number",
            "distance": "number",
        }.items(),
        start=1,
    )
)
COPY = "COPY record (tenant_id, table_id, data, created_at, updated_at) FROM STDIN"


def main():
    """Measure the ways in, in turns, and print one table."""
    options = read_options(__doc__, sizes={"records": (20_000, 336_776)})
    rows = list(departures(options.records))
    with running_database() as database, running_api(database) as (child, api):
        tables = Tables(database)
        sides = [
            Side(
                name=f"{format} upload, {told}",
                work=uploads(api, tables, rows, format),
                prepare=lambda triggers=triggers: tables.another(triggers),
            )
            for format, triggers, told in (
                ("jsonl", None, "no trigger"),
                ("csv", None, "no trigger"),
                ("jsonl", [date_trigger()], "a date trigger"),
            )
        ]
        bare = Side(
            name="bare COPY",
            work=copy(database, tables, rows),
            prepare=lambda: tables.another(None),
        )
        pids = [database.pid, child.pid]
        figures = in_turns([*sides, bare], rounds=ROUNDS, cpu=cpu_meter(pids, own=False))
    answer = [
        {
            "way in": figure.name,
            "records/s": round(figure.units_per_second),
            "of COPY": rounded(figures[-1].turn_seconds / figure.turn_seconds),
            "CPU µs each": rounded(figure.cpu_unit_us),
        }
        for figure in figures
    ]
    report("bulk_create", f"{options.records:,} records created", answer, options=options)


def departures(count):
    """Yield rows by column name, the same in every run."""
    choose = random.Random(1)
    ahead = datetime(2100, 1, 1, tzinfo=UTC)
    for number in range(count):
        yield {
            "carrier": choose.choice(["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN"]),
            "flight": choose.randrange(1, 6000),
            "tail": f"N{choose.randrange(100, 999)}{choose.choice('ABCDEFGH')}{number % 10}",
            "origin": choose.choice(["EWR", "JFK", "LGA"]),
            "destination": choose.choice(["ORD", "ATL", "LAX", "BOS", "MCO", "IAH"]),
            "due": f"{ahead + timedelta(minutes=2 * number):%Y-%m-%d %H:%M}",
            "delay": choose.randrange(-20, 300),
            "distance": choose.randrange(80, 5000),
        }


class Tables:
    """Makes one empty table after another; the records of the one before are removed."""

    def __init__(self, database):
        self.database = database
        self.tenant_id = database.conn.execute("SELECT id FROM tenant").fetchone()[0]
        self.table = None

    def another(self, triggers):
        """Make an empty table with these triggers."""
        self.database.conn.execute("TRUNCATE record, due_value")
        self.table = add_table(
            self.database.conn, tenant_id=self.tenant_id, columns=COLUMNS, triggers=triggers
        )


def uploads(api, tables, rows, format):
    """Return the work of uploading all rows in one format."""
    chunks = list(cut(io.BytesIO(FORMATS[format](rows)), format, records=UPLOAD))

    def work():
        path = f"{TABLES}/{tables.table.id}/records/bulk"
        return sum(
            api.upload(path, chunk.body, media=MEDIA[format], key=chunk.key(salt=path))["created"]
            for chunk in chunks
        )

    return work


def json_lines(rows):
    """Return the rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows):
    """Return the rows as CSV under a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


FORMATS = {"jsonl": json_lines, "csv": as_csv}


def copy(database, tables, rows):
    """Return the work of copying all rows, as the product stores them, in one statement."""
    ids = {column.name: column.id for column in COLUMNS}
    stored = [json.dumps({ids[name]: cell for name, cell in row.items()}) for row in rows]
    # Of the superuser: whom row level security binds, may not COPY.
    admin = database.admin()

    def work():
        table = tables.table
        lines = f"{table.tenant_id}\t{table.id}\t", f"\t{table.created_at}\t{table.created_at}\n"
        with admin.cursor() as cursor, cursor.copy(COPY) as copying:
            copying.write(lines[1].join(lines[0] + row for row in stored) + lines[1])
        return len(stored)

    return work


if __name__ == "__main__":
    main()
