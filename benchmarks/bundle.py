"""What does an author wait for who keeps all definitions of a tenant in a document?

Tables with ten triggers each, of all kinds: planned and applied into a tenant without anything,
planned again when all of it stands, applied with one trigger of each table changed, exported.
"""

import json
from itertools import count

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.servers import running_database
from benchmarks.measure.turns import Side, in_turns
from shared.db.clock import server_now
from shared.queries.tenants import insert_tenant
from shared.usecases.apply_bundle import apply_bundle
from shared.usecases.bundle_state import Reach
from shared.usecases.export_bundle import export_bundle
from shared.usecases.plan_bundle import plan_bundle

ROUNDS = 5
TRIGGERS = 10
COLUMNS = [
    {"id": "c1", "name": "title", "type": "text"},
    {"id": "c2", "name": "due", "type": "datetime"},
    {"id": "c3", "name": "state", "type": "select", "options": ["open", "done"]},
]
SCHEDULES = (
    {"type": "date_column_reached", "column": "due", "offset_minutes": -60},
    {"type": "interval", "every_seconds": 3600},
    {"type": "daily", "at": "09:00", "timezone": "Asia/Taipei"},
    {"type": "cron", "expression": "*/15 8-18 * * 1-5"},
)
CHATROOM = "11111111-1111-4111-8111-111111111111"


def main():
    """Measure them in turns and print one table."""
    options = read_options(__doc__, sizes={"tables": (200, 1000)})
    with running_database() as database:
        author = Author(database.conn)
        document = lines(options.tables)
        edited = lines(options.tables, name="edited")
        sides = [
            author.side("plan, nothing stands", lambda: author.plan(document), author.new_tenant),
            author.side(
                "apply, all of it new", lambda: author.apply(document), author.plan_new(document)
            ),
            author.side("plan, all of it stands", lambda: author.plan(document)),
            author.side(
                "apply, a trigger of each table",
                lambda: author.apply(edited),
                author.planned(edited, document),
            ),
            author.side("export", author.export),
        ]
        figures = in_turns(sides, rounds=ROUNDS, cpu=cpu_meter([database.pid]))
    rows = [
        {
            "question": figure.name,
            "s": rounded(figure.turn_seconds),
            "CPU s": rounded(figure.cpu_turn_seconds),
        }
        for figure in figures
    ]
    title = f"{options.tables:,} tables with {TRIGGERS} triggers each, {len(document):,} bytes"
    report("bundle", title, rows, options=options)


def lines(tables, *, name="plain"):
    """Return a document; the first trigger of each table has this name."""
    found = []
    for number in range(tables):
        table = f"table {number}"
        found.append({"kind": "table", "name": table, "columns": COLUMNS})
        found += [trigger(table, place, name if not place else "") for place in range(TRIGGERS)]
    return "".join(f"{json.dumps(line)}\n" for line in found).encode()


def trigger(table, place, name):
    """Return the line of a trigger, each place of another kind in turn."""
    schedule = SCHEDULES[place % len(SCHEDULES)]
    is_date = schedule["type"] == "date_column_reached"
    notify = {
        "type": "notify",
        "chatroom_id": CHATROOM,
        "message": "$row.title" if is_date else "x",
    }
    when = [{"column": "state", "op": "neq", "value": "done"}] if is_date else []
    head = {"kind": "trigger", "table": table, "id": f"trg_{place:012x}", "name": name}
    return {**head, "on": "schedule", "schedule": schedule, "when": when, "actions": [notify]}


class Author:
    """Somebody who has one tenant after the other, and the plan that was made last."""

    def __init__(self, conn):
        self.conn = conn
        self.serial = count()
        self.fingerprint = ""
        self.new_tenant()

    def side(self, name, work, prepare=lambda: None):
        """Return one of the things compared; each turn does it once."""
        return Side(name=name, work=work, prepare=prepare)

    def new_tenant(self):
        """Go on in a tenant without anything."""
        tenant = insert_tenant(
            self.conn, name=f"tenant {next(self.serial)}", now=server_now(self.conn)
        )
        self.reach = Reach(tenant_id=tenant.id, channel_id=None)

    def plan_new(self, document):
        """Return what plans a document in a tenant without anything."""

        def prepare():
            self.new_tenant()
            self.plan(document)

        return prepare

    def planned(self, document, before):
        """Return what applies one document and plans another, so that there is something to do."""

        def prepare():
            self.plan(before)
            self.apply(before)
            self.plan(document)

        return prepare

    def plan(self, document):
        """Plan a document."""
        planned = plan_bundle(self.conn, self.reach, document, now=server_now(self.conn))
        self.fingerprint = planned.fingerprint
        return 1

    def apply(self, document):
        """Apply the document that was planned last."""
        now = server_now(self.conn)
        apply_bundle(self.conn, self.reach, document, fingerprint=self.fingerprint, now=now)
        return 1

    def export(self):
        """Export all of it."""
        assert export_bundle(self.conn, self.reach)
        return 1


if __name__ == "__main__":
    main()
