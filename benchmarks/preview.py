"""What does an author or a reader of a large table wait for?

The schedule preview over HTTP, beside the exact count of live records that it must tell; and pages
of the record list, at the beginning, in the middle and at the end.
"""

from datetime import timedelta

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_records, add_table, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from benchmarks.measure.services import running_api
from benchmarks.measure.turns import Side, in_turns
from services.cli.api import TABLES
from shared.db.clock import server_now
from shared.queries.records import count_live, list_records

ROUNDS = 11
REPEATED = 5
PAGE = 100


def main():
    """Measure all of it in turns and print one table."""
    options = read_options(__doc__, sizes={"records": (200_000, 1_000_000)})
    with running_database() as database, running_api(database) as (child, api):
        tenant_id = database.conn.execute("SELECT id FROM tenant").fetchone()[0]
        table = fill(database, tenant_id, options.records)
        sides = [*previews(database, api, table), *pages(database, api, table, options.records)]
        figures = in_turns(sides, rounds=ROUNDS, cpu=cpu_meter([database.pid, child.pid]))
    rows = [
        {
            "question": figure.name,
            "ms": rounded(figure.unit_us / 1000),
            "CPU ms": rounded(figure.cpu_unit_us / 1000),
        }
        for figure in figures
    ]
    without = {name: rounded(rows[0][name] - rows[1][name]) for name in ("ms", "CPU ms")}
    rows.insert(2, {"question": "preview without the count", **without})
    report("preview", f"A table of {options.records:,} records", rows, options=options)


def fill(database, tenant_id, records):
    """Make a table of the tenant, half of its dates over and fired, with two triggers."""
    conn = database.conn
    interval = {"type": "interval", "every_seconds": 3600}
    clock = {**date_trigger(), "schedule": interval}
    table = add_table(conn, tenant_id=tenant_id, triggers=[date_trigger(), clock])
    middle = server_now(conn) - timedelta(seconds=60 * records / 2)
    add_records(conn, table, records, first=middle, step_seconds=60)
    catch_up(conn)
    database.settle()
    return table


def previews(database, api, table):
    """Return the preview and the count."""
    path = f"{TABLES}/{table.id}/triggers/schedule-preview"

    def preview():
        for _ in range(REPEATED):
            assert api.call("GET", path)["triggers"][0]["records_scanned"] == 1000
        return REPEATED

    def count():
        for _ in range(REPEATED):
            assert count_live(database.conn, table.id)
        return REPEATED

    return [Side(name="preview", work=preview), Side(name="count of live records", work=count)]


def pages(database, api, table, records):
    """Return the first page over HTTP, and pages at three depths as the API reads them."""
    path = f"{TABLES}/{table.id}/records"

    def over_http():
        for _ in range(REPEATED):
            assert len(api.call("GET", path, query={"limit": PAGE})["items"]) == PAGE
        return REPEATED

    def side(depth):
        after = database.conn.execute(
            "SELECT created_at, id FROM record WHERE table_id = %s ORDER BY created_at, id"
            " OFFSET %s LIMIT 1",
            [table.id, depth],
        ).fetchone()

        def page():
            for _ in range(REPEATED):
                found = list_records(database.conn, table, after=after, limit=PAGE)
                assert len(found.records) == PAGE
            return REPEATED

        return Side(name=f"page of {PAGE} behind {depth:,} records", work=page)

    depths = (0, records // 2, records - 2 * PAGE)
    return [Side(name=f"page of {PAGE} over HTTP", work=over_http), *map(side, depths)]


if __name__ == "__main__":
    main()
