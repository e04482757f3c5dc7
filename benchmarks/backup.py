"""How long do a dump, its restore and the check of it take, and how large are they?

The commands of docs/backup.md, each once, on one server: records with a date trigger that has fired
for each of them, so that there is a run with a receipt and a ledger row for each.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure.report import read_options, report
from benchmarks.measure.seeds import add_records, add_table, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from services.cli.embedded_postgres import find_binaries
from shared.db.connection import connect
from shared.db.provision import ensure_database
from shared.lifecycle import monotonic
from tests.servers.postgres import ROLE

_CALL = {"type": "api_call", "method": "POST", "url": "https://example.com/orders"}
_RUNS = "SELECT count(*) FROM trigger_run"
_DONE = """
UPDATE trigger_run
SET status = 'done', finished_at = created_at, attempts = 1, starts = 1, next_attempt_at = NULL,
    announce_at = NULL, action_results = %(receipts)s
"""
_RECEIPTS = """
[{"type": "api_call", "ok": true, "detail": null, "attempts": 1, "transient": false,
  "started_at": "2026-07-25T09:00:00Z", "finished_at": "2026-07-25T09:00:00Z", "status": 200}]
"""


def main():
    """Measure each command once, and print one table."""
    options = read_options(__doc__, sizes={"records": (20_000, 200_000)})
    with TemporaryDirectory() as folder, running_database() as database:
        fill(database, options.records)
        dump, admin = Path(folder) / "duebook.dump", database.server.url(database.name)
        with connect(database.server.url("postgres"), application_name="bench") as server:
            ensure_database(server, database="scratch", owner=ROLE)
        url = database.server.url("scratch", role=ROLE)
        restore = ["pg_restore", "--exit-on-error", "--no-owner", "-d", url]
        steps = {
            "pg_dump -Fc": ["pg_dump", "-Fc", "-f", dump, admin],
            "pg_restore": [*restore, dump],
            "vacuumdb --analyze-only": ["vacuumdb", "--analyze-only", "--quiet", "-d", url],
            "duebook doctor --verify": ["duebook", "doctor", "--verify"],
        }
        answer = [{"step": name, "s": round(seconds(step, url), 1)} for name, step in steps.items()]
        answer += [
            {"step": "MB in the database", "s": round(size(database) / 1e6)},
            {"step": "MB in the dump", "s": round(dump.stat().st_size / 1e6)},
        ]
    title = f"{options.records:,} records, as many runs and ledger rows"
    report("backup", title, answer, options=options)


def fill(database, count):
    """Make records that are overdue, have each of them fire, and end the runs."""
    table = add_table(database.conn, triggers=[date_trigger(actions=[_CALL])])
    add_records(
        database.conn, table, count, first=datetime(2020, 1, 1, tzinfo=UTC), step_seconds=60
    )
    while database.conn.execute(_RUNS).fetchone()[0] < count:
        catch_up(database.conn)
    database.conn.execute(_DONE, {"receipts": _RECEIPTS})
    database.settle()


def seconds(command, url):
    """Return how long a command takes, which has to end well."""
    programs = [str(find_binaries()), str(Path(sys.executable).parent), os.environ["PATH"]]
    path = os.pathsep.join(programs)
    began = monotonic()
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, "PATH": path, "DATABASE_URL": url, "AMQP_URL": "", "REDIS_URL": ""},
        capture_output=True,
        text=True,
    )
    took = monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    return took


def size(database):
    """Return how many bytes the database has on disk."""
    with database.admin() as admin:
        return admin.execute("SELECT pg_database_size(current_database())").fetchone()[0]


if __name__ == "__main__":
    main()
