"""The random world, whose authors choose what becomes of overdue values, and what they were told.

Kept here is what each save was to consume or to let drip, read from the rows by the oracle alone.
"""

from collections import defaultdict
from datetime import timedelta

from shared.domain.on_existing import FIRE, OnExisting
from shared.errors import Conflict
from shared.queries.trigger_states import list_all_states
from shared.schedule import fire_at, parse_cell
from shared.usecases.tick import tick
from tests.integration.usecases.random_world import WHEN_OPEN, World
from tests.integration.usecases.world import a_known, end_runs, records_of, save

_MINUTE = timedelta(minutes=1)
_CHOICES = (
    FIRE,
    OnExisting(mode="consume"),
    OnExisting(mode="consume"),
    OnExisting(mode="drip", per_minute=1),
    OnExisting(mode="drip", per_minute=3),
)


class ChoosingWorld(World):
    """``doomed`` will never fire, ``dripping`` waits; both by ref, as (record id, identity)."""

    def __init__(self, seed, conn, racers):
        self.doomed = defaultdict(set)
        self.dripping = defaultdict(set)
        self.rates = {}
        self.drops = defaultdict(list)
        self.conflicts = 0
        super().__init__(seed, conn, racers)

    def time_passes(self):
        if self.random.random() < 0.5:
            self.now += timedelta(seconds=self.random.choice([1, 20, 59, 60]))
        else:
            super().time_passes()

    def an_author_edits(self):
        """Write some rows and then date triggers, or edit one: a save has something to choose."""
        table_id = self._some_table()
        if not self._lives(table_id):
            return
        self._write(table_id, 4)
        authored = self.authored[table_id]
        new = f"trg_{self.random.randrange(5):012x}"
        known = self.random.choice([*authored, new])
        if self.random.random() < 0.3:
            self._save(table_id, without=known)
            return
        offset = self.random.choice([0, -60, 1440, 43200])
        column = self.random.choice(["due", "due", "day"])
        authored[new] = {
            **a_known(id=new, enabled=self.random.random() < 0.85),
            "schedule": {"type": "date_column_reached", "column": column, "offset_minutes": offset},
            "when": WHEN_OPEN if self.random.random() < 0.4 else [],
        }
        self._save(table_id)

    def _save(self, table_id, without=None):
        if not self._lives(table_id):
            return
        choice = self.random.choice(_CHOICES)
        triggers = [one for id, one in self.authored[table_id].items() if id != without]
        before = self._states(table_id)
        try:
            save(self.conn, self._table(table_id), *triggers, now=self.now, on_existing=choice)
        except Conflict:
            self.conflicts += 1
            assert any(one.backlog and one.backlog.mode == "consume" for one in before.values())
            return
        self.story.append((choice, without))
        self._promise(table_id, before, choice)

    def _states(self, table_id):
        return {one.trigger_id: one for one in list_all_states(self.conn, [table_id])}

    def _promise(self, table_id, before, choice):
        """Note what the save was to do, by spec: of new, revived and edited date triggers."""
        after = self._states(table_id)
        for id, state in after.items():
            old = before.get(id)
            is_kept = old and old.retired_at is None and old.schedule == state.schedule
            if state.kind != "date_column_reached" or (is_kept and state.retired_at is None):
                continue
            self._forget(state.ref)
            if state.retired_at is None and not is_kept:
                overdue = self._overdue(table_id, state)
                if choice.mode == "consume":
                    self.doomed[state.ref] |= overdue
                elif choice.mode == "drip":
                    self.dripping[state.ref] = overdue
                    self.rates[state.ref] = choice.per_minute

    def _forget(self, ref):
        for kept in (self.dripping, self.rates, self.drops):
            kept.pop(ref, None)

    def _overdue(self, table_id, state):
        """Return the values of live rows that are due by now and not in the ledger."""
        table = self._table(table_id)
        column = next(one for one in table.columns if one.name == state.schedule["column"])
        offset = state.schedule.get("offset_minutes", 0)
        found = set()
        for record in records_of(self.conn, table):
            cell = parse_cell(record.data.get(column.id), column.type)
            if record.deleted_at is None and cell and fire_at(cell.instant, offset) <= self.now:
                found.add((record.id, cell.identity))
        return found - {one[1:] for one in self._ledger() if one[0] == state.ref}

    def somebody_writes(self):
        """A value that is replaced, or whose row is deleted, leaves its drip."""
        before = self._values()
        super().somebody_writes()
        after = self._values()
        for ref, waiting in self.dripping.items():
            waiting -= {one for one in waiting if (ref, *one) in before - after}

    def _values(self):
        return {
            (known.state.ref, record_id, identity)
            for known in self._known()
            if not known.is_clock
            for record_id, identity, _ in known.classified(known.in_walk_order(self.conn), self.now)
        }

    def _known(self):
        """Return the triggers with what was promised about their rows, as the oracle takes it."""
        self._let_end()
        return [self._promised(known) for known in super()._known()]

    def _promised(self, known):
        ref = known.state.ref
        return type(known)(
            **{name: getattr(known, name) for name in ("table", "stored", "state", "is_fenced")},
            consumed=known.consumed | self.doomed[ref],
            held=frozenset(self.dripping.get(ref, ())),
        )

    def _let_end(self):
        """Follow drips that have ended by themselves, and see that nothing waited any more."""
        alive = {ref for (ref,) in self.conn.execute("SELECT trigger_ref FROM backlog")}
        ended = {ref: self.dripping[ref] for ref in set(self.dripping) - alive}
        for ref in ended:
            self._forget(ref)
        for known in super()._known() if ended else ():
            if known.is_clock:
                continue
            waited = ended.get(known.state.ref, set())
            rows = known.classified(known.in_walk_order(self.conn), self.now)
            left = {(id, identity) for id, identity, name in rows if name == "due_now"}
            assert not (waited & left), self.story

    def _born_by(self, step):
        """Return what did not drip; hold what did to its rate, and all to the promises."""
        waiting = {ref: set(values) for ref, values in self.dripping.items()}
        rates = dict(self.rates)
        born = super()._born_by(step)
        for ref, record_id, identity in born:
            assert (record_id, identity) not in self.doomed[ref], self.story
        dripped = {one for one in born if one[1:] in waiting.get(one[0], ())}
        for ref in {one[0] for one in dripped}:
            fired = {one[1:] for one in dripped if one[0] == ref}
            self.dripping[ref] -= fired
            self.drops[ref] += [self.now] * len(fired)
            recent = [at for at in self.drops[ref] if at > self.now - _MINUTE]
            assert len(recent) <= rates[ref], self.story
        return born - dripped

    def _assert_ledger(self):
        of_runs = set(
            self.conn.execute(
                "SELECT trigger_ref, coalesce(record_id, 0), identity FROM trigger_run"
            )
        )
        entered = self.conn.execute(
            "SELECT trigger_ref, record_id, identity, by_run FROM occurrence"
        ).fetchall()
        assert {one[:3] for one in entered if one[3]} == of_runs, self.story
        by_save = {one[:3] for one in entered if not one[3]}
        assert by_save <= self._all_doomed(), self.story

    def _all_doomed(self):
        return {(ref, *one) for ref, values in self.doomed.items() for one in values}

    def settle(self):
        """Let every drip end; then all that was doomed is in the ledger, and the rest has fired."""
        super().settle()
        for _ in range(len(self._drips()) and 60):
            self.now += _MINUTE
            end_runs(self.conn, now=self.now)
            self._born_by(lambda: self._tick_through())
            if not self._drips():
                break
        assert self._drips() == set(), self.story
        assert self._due() == set(), self.story
        entered = self.conn.execute(
            "SELECT trigger_ref, record_id, identity FROM occurrence WHERE NOT by_run"
        )
        assert set(entered) == self._all_doomed(), self.story

    def _tick_through(self):
        while tick(self.conn, record_limit=3, now=self.now).unfinished:
            pass

    def _drips(self):
        """Return the triggers that still drip, those that are switched on."""
        return {
            known.state.ref
            for known in self._known()
            if known.state.backlog is not None and known.stored["enabled"]
        }
