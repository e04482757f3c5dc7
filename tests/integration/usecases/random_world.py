"""Two tables, whoever writes and edits them, and their scheduler: driven by a seeded random."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random

from shared.domain.columns import Column
from shared.effects.record_writes import (
    create_records,
    delete_record,
    restore_record,
    update_record,
)
from shared.queries.custom_tables import find_table
from shared.queries.trigger_states import list_states
from shared.usecases.due_pass import due_pass
from shared.usecases.manage_tables import restore_table, trash_table
from shared.usecases.preview import preview
from shared.usecases.tick import tick
from tests.builders import AN_ACTION
from tests.builders_db import NOW, insert_table, insert_tenant
from tests.integration.usecases.oracle import CLASSES, Known
from tests.integration.usecases.world import end_runs, records_of, save

COLUMNS = (
    Column(id="c1", name="due", type="datetime"),
    Column(id="c2", name="day", type="date"),
    Column(id="c3", name="open", type="checkbox"),
)
WHEN_OPEN = [{"column": "open", "op": "eq", "value": True}]
ALL = 1000

_FORMS = ("{:%Y-%m-%d %H:%M}", "{:%Y-%m-%dT%H:%M:%S}Z", " {:%Y-%m-%d}", "{:%Y-%m-%d %H:%M}+08:00")
_ODD_CELLS = (None, "", "soon", "9999-12-31 23:59", "0001-01-01")
_SCHEDULES = {
    "date_column_reached": {
        "column": ("due", "due", "day"),
        "offset_minutes": (0, -60, 1440, 43200),
    },
    "interval": {"every_seconds": (60, 3600, 86400)},
    "daily": {"at": ("00:00", "09:00", "23:30"), "timezone": ("UTC", "Asia/Taipei")},
    "cron": {"expression": ("*/15 * * * *", "0 9 * * *", "0 0 30 2 *")},
}
_KINDS = tuple(_SCHEDULES)


class World:
    """``story`` tells what happened, for whoever reads a failure."""

    def __init__(self, seed, conn, racers):
        self.random = Random(seed)
        self.conn = conn
        self.racers = racers
        self.now = NOW
        self.story = []
        self.born = 0
        tenant_id = insert_tenant(conn)
        made = [insert_table(conn, tenant_id=tenant_id, columns=COLUMNS) for _ in range(2)]
        self.authored = {table.id: {} for table in made}
        for table in made:
            for _ in range(4):
                self._author(table.id)
            self._write(table.id, 8)

    def step(self):
        """Let one thing happen, and hold the ledger to its promise."""
        happening = self.random.choices(
            [
                self.time_passes,
                self.an_author_edits,
                self.somebody_writes,
                self.a_table_goes_or_returns,
                self.runs_end,
                self.preview_then_tick,
                self.preview_then_race,
                self.due_pass,
            ],
            weights=[4, 3, 4, 1, 2, 4, 2, 1],
        )[0]
        self.story.append(happening.__name__)
        happening()
        self._assert_ledger()

    def time_passes(self):
        self.now += timedelta(
            minutes=self.random.choice([0, 1, 15, 60, 600, 1440, 14400]), microseconds=1
        )

    def an_author_edits(self):
        table_id = self._some_table()
        authored = self.authored[table_id]
        trigger_id = self.random.choice(sorted(authored))
        what = self.random.choice(["new", "switch", "remove", "return"])
        if what == "new":
            self._author(table_id)
        elif what == "switch":
            authored[trigger_id]["enabled"] = not authored[trigger_id]["enabled"]
            self._save(table_id)
        else:
            self._save(table_id, without=trigger_id if what == "remove" else None)

    def _author(self, table_id):
        """Write a trigger; its id tells its kind, so that an edit never changes it."""
        kind = self.random.choice([*_KINDS, "date_column_reached", "date_column_reached"])
        parts = {key: self.random.choice(values) for key, values in _SCHEDULES[kind].items()}
        trigger_id = f"trg_{_KINDS.index(kind):011x}{self.random.randrange(2)}"
        self.authored[table_id][trigger_id] = {
            "id": trigger_id,
            "on": "schedule",
            "schedule": {"type": kind, **parts},
            "enabled": self.random.random() < 0.8,
            "when": WHEN_OPEN if kind != "cron" and self.random.random() < 0.5 else [],
            "actions": [AN_ACTION],
        }
        self._save(table_id)

    def _save(self, table_id, without=None):
        triggers = [one for id, one in self.authored[table_id].items() if id != without]
        if self._lives(table_id):
            save(self.conn, self._table(table_id), *triggers, now=self.now)

    def somebody_writes(self):
        table_id = self._some_table()
        if not self._lives(table_id):
            return
        table = self._table(table_id)
        record = self.random.choice(records_of(self.conn, table))
        what = self.random.choice(["write", "rewrite", "rewrite", "delete or restore"])
        if what == "write":
            self._write(table_id, self.random.randrange(1, 4))
        elif what == "delete or restore":
            move = delete_record if record.deleted_at is None else restore_record
            move(self.conn, table, record.id, now=self.now)
        elif record.deleted_at is None:
            update_record(self.conn, table, record.id, self._row(), now=self.now)

    def _write(self, table_id, count):
        rows = [self._row() for _ in range(count)]
        create_records(self.conn, self._table(table_id), rows, now=self.now)

    def _row(self):
        return {"c1": self._cell(), "c2": self._cell(), "c3": self.random.random() < 0.7}

    def _cell(self):
        if self.random.random() < 0.15:
            return self.random.choice(_ODD_CELLS)
        at = self.now + timedelta(minutes=self.random.randrange(-3 * 1440, 3 * 1440))
        return self.random.choice(_FORMS).format(at)

    def a_table_goes_or_returns(self):
        table_id = self._some_table()
        move = trash_table if self._lives(table_id) else restore_table
        move(self.conn, table_id, now=self.now)

    def runs_end(self):
        end_runs(self.conn, now=self.now, status=self.random.choice(["done", "failed"]))

    def preview_then_tick(self):
        limit = self.random.choice([1, 2, 3, ALL])
        lock_seconds = self.random.choice([0.0, 1.0])
        expected = self._previewed(limit)

        born = self._born_by(
            lambda: tick(self.conn, record_limit=limit, lock_seconds=lock_seconds, now=self.now)
        )

        assert born == expected, self.story

    def preview_then_race(self):
        """Two ticks at once, and sometimes a due pass between them."""
        expected = self._previewed(ALL)
        steps = [tick, tick, due_pass][: self.random.randrange(2, 4)]

        def race():
            with ThreadPoolExecutor(len(steps)) as pool:
                list(pool.map(lambda step, conn: step(conn, now=self.now), steps, self.racers))

        assert self._born_by(race) == expected, self.story

    def due_pass(self):
        expected = self._due()

        born = self._born_by(
            lambda: due_pass(
                self.conn,
                limit=self.random.choice([1, 3, ALL]),
                fairly=self.random.random() < 0.5,
                now=self.now,
            )
        )

        assert born <= expected, self.story

    def settle(self):
        """Tick until no walk waits; then nothing is due that has not fired."""
        end_runs(self.conn, now=self.now)
        for table_id in self.authored:
            if not self._lives(table_id):
                restore_table(self.conn, table_id, now=self.now)
        while tick(self.conn, record_limit=3, now=self.now).unfinished:
            pass
        assert self._due() == set(), self.story
        self._assert_ledger()

    def _due(self):
        return self._expected(ALL)

    def _expected(self, limit):
        return {
            (known.state.ref, *one)
            for known in self._known()
            for one in known.next_tick(self.conn, limit, self.now)
        }

    def _previewed(self, limit):
        """Hold every preview against the oracle; return what the next tick is to create."""
        for known in self._known():
            seen = preview(self.conn, known.table, record_limit=limit, now=self.now)
            arms = {arm["trigger_id"]: arm for arm in seen.triggers}
            self._assert_arm(arms[known.stored["id"]], known, limit, seen.live_records)
        return self._expected(limit)

    def _assert_arm(self, arm, known, limit, live_records):
        assert arm["config_status"] == "valid"
        if known.is_clock:
            window = known.due_window(self.now)
            assert arm["due_at"] == (window and window.rstrip("Z")), self.story
            assert arm["active_run"] == known.is_fenced, self.story
            assert arm["due_now"] == (window is not None and not known.is_fenced), self.story
            return
        page = known.first_page(self.conn, limit, self.now)
        assert {name: arm[name] for name in CLASSES} == {name: page[name] for name in CLASSES}
        assert arm["records_scanned"] == page.total() == live_records - arm["unscanned"]
        assert arm["truncated"] == (arm["unscanned"] > 0)

    def _known(self):
        """Return all triggers on schedule of live tables."""
        ledger, fenced = self._ledger(), self._fenced()
        found = []
        for table in map(self._table, self.authored):
            states = {state.trigger_id: state for state in list_states(self.conn, table.id)}
            for stored in table.triggers if table.trashed_at is None else []:
                state = states[stored["id"]]
                found.append(
                    Known(
                        table=table,
                        stored=stored,
                        state=state,
                        consumed=frozenset(one[1:] for one in ledger if one[0] == state.ref),
                        is_fenced=state.ref in fenced,
                    )
                )
        return found

    def _ledger(self):
        return set(self.conn.execute("SELECT trigger_ref, record_id, identity FROM occurrence"))

    def _fenced(self):
        found = self.conn.execute(
            "SELECT trigger_ref FROM trigger_run WHERE status IN ('pending', 'running')"
            " AND kind <> 'date_column_reached'"
        ).fetchall()
        assert len(found) == len(set(found)), self.story
        return {ref for (ref,) in found}

    def _born_by(self, step):
        """Return what a step created, each run once: (ref, record id or None, identity)."""
        [(last,)] = self.conn.execute("SELECT coalesce(max(id), 0) FROM trigger_run")
        step()
        born = self.conn.execute(
            "SELECT trigger_ref, record_id, identity FROM trigger_run WHERE id > %s", [last]
        ).fetchall()
        assert len(set(born)) == len(born), self.story
        self.born += len(born)
        return set(born)

    def _assert_ledger(self):
        of_runs = self.conn.execute(
            "SELECT trigger_ref, coalesce(record_id, 0), identity FROM trigger_run"
        ).fetchall()
        assert len(of_runs) == len(set(of_runs)), self.story
        assert set(of_runs) == self._ledger(), self.story

    def _some_table(self):
        return self.random.choice(list(self.authored))

    def _table(self, table_id):
        return find_table(self.conn, table_id)

    def _lives(self, table_id):
        return self._table(table_id).trashed_at is None
