"""What does the life of work cost in PostgreSQL, and do a million waiting rows make it dearer?

Announce, claim and finish, each in batches, in a database where nothing else waits and in one on
the same server where rows wait that are not due. No Python of the worker is in these figures.
"""

from collections import deque
from datetime import timedelta
from uuid import uuid4

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_runs, add_table
from benchmarks.measure.servers import another_database, running_database
from benchmarks.measure.turns import Side, in_turns
from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.queries.announcements import announce_batch
from shared.queries.claims import claim
from shared.queries.work import Finish, finish
from shared.queries.workers import register_worker

BATCHES = (500, 20)
ROUNDS = 15
TURN = 2000
RECEIPT = {"type": "noop", "ok": True, "attempts": 1}


def main():
    """Measure both databases in turns and print one table."""
    options = read_options(__doc__, sizes={"waiting": (200_000, 1_000_000)})
    rows = []
    with running_database() as none, another_database(none.server, "waiting") as many:
        for database in (none, many):
            add_runs(database.conn, add_table(database.conn), 1, at=far_off(database.conn))
        add_runs(many.conn, add_table(many.conn), options.waiting, at=far_off(many.conn))
        for size in BATCHES:
            rows += compare(none, many, size)
    title = f"µs per row beside no row and beside {options.waiting:,} rows not due"
    report("claims", title, rows, options=options)


def far_off(conn):
    """Return an instant at which nothing of this benchmark is due."""
    return server_now(conn) + timedelta(days=365)


def compare(none, many, size):
    """Return a line for each step of the life of work, in batches of ``size``."""
    lives = [Life(none.conn, size), Life(many.conn, size)]
    for life, database in zip(lives, (none, many), strict=True):
        life.pass_once()
        database.settle()
    steps = ("announce", "claim", "finish")
    sides = [
        Side(name=step, work=getattr(life, step), prepare=life.prepare[step])
        for step in steps
        for life in lives
    ]
    figures = in_turns(sides, rounds=ROUNDS, cpu=cpu_meter([none.pid], own=False))
    return [
        {
            "step": step,
            "batch": size,
            "beside none": rounded(figures[2 * index].unit_us),
            "beside many": rounded(figures[2 * index + 1].unit_us),
            "ratio": rounded(figures[2 * index + 1].unit_us / figures[2 * index].unit_us),
            "CPU beside none": rounded(figures[2 * index].cpu_unit_us),
            "CPU beside many": rounded(figures[2 * index + 1].cpu_unit_us),
        }
        for index, step in enumerate(steps)
    ]


class Life:
    """Takes runs through their life in one database, step by step, in batches of one size."""

    def __init__(self, conn, size):
        self.conn = conn
        self.size = size
        self.table = add_table(conn)
        self.worker_id = register_worker(
            conn, host="bench", release="0", roles=["bench"], threads=1, now=server_now(conn)
        )
        self.batches = deque()
        self.prepare = {"announce": self.insert, "claim": lambda: None, "finish": lambda: None}

    def pass_once(self):
        """Take the runs of a turn through their whole life."""
        for step in (self.insert, self.announce, self.claim, self.finish):
            step()

    def insert(self):
        """Insert the runs of a turn, due now."""
        add_runs(self.conn, self.table, TURN, at=server_now(self.conn) - timedelta(seconds=1))

    def announce(self):
        """Announce all that is due."""
        for _ in range(TURN // self.size):
            announced = announce_batch(self.conn, kind="trigger_run", urgent=False, limit=self.size)
            self.batches.append([Reference(id=row.id, token=row.token) for row in announced])
        return TURN

    def claim(self):
        """Claim what was announced."""
        for _ in range(TURN // self.size):
            runs = claim(
                self.conn,
                self.batches.popleft(),
                worker_id=self.worker_id,
                lease_token=uuid4(),
                lease_seconds=300,
            )
            self.batches.append(runs)
        return TURN

    def finish(self):
        """Finish what was claimed, each with a receipt."""
        for _ in range(TURN // self.size):
            finishes = [_finish(run) for run in self.batches.popleft()]
            ended = finish(self.conn, finishes, kind="trigger_run")
            assert len(ended) == self.size
        return TURN


def _finish(run):
    return Finish(
        id=run.id, lease_token=run.lease_token, receipts=[RECEIPT], status="done", error=None
    )


if __name__ == "__main__":
    main()
