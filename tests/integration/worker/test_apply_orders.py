"""Applying a change beside another worker, and beside an edit, in every order of their statements.

What would break the promise stands here too, and must be caught: a version that is compared before
the record is locked.
"""

import pytest

from services.worker.apply_change import apply_change
from shared.domain.work import Reference
from shared.effects.record_writes import update_record
from shared.queries import approved_changes, custom_tables
from shared.queries.records import find_record
from tests.builders_db import NOW, insert_records, insert_table, row_of
from tests.builders_staged import insert_update
from tests.interleavings import Side, SteppedConnection, every_interleaving

# What nobody changes, and what only begins: in whichever order it comes, the others meet the same.
_PASSING = ("NOTIFY", "BEGIN", "SAVEPOINT", "RELEASE", custom_tables.SELECT_TABLES.strip()[:40])


def _is_passing(statement):
    return statement.lstrip().startswith(_PASSING)


@pytest.fixture
def sessions(database_url):
    """Two sessions that stop before each statement."""
    opened = [SteppedConnection.connect(database_url, autocommit=True) for _ in range(2)]
    for conn in opened:
        conn.passing = _is_passing
    yield opened
    for conn in opened:
        conn.close()


class Scene:
    """A record, and an approved change of one of its cells."""

    def __init__(self, conn):
        self.conn = conn
        self.table = insert_table(conn, approval="required")
        (self.record,) = insert_records(conn, self.table, [{"c1": "old"}])
        self.change_id = insert_update(conn, self.table, self.record, status="approved")
        token = row_of(conn, "staged_change", self.change_id)["token"]
        (self.offered,) = approved_changes.list_approved(conn, [Reference(self.change_id, token)])

    def applying(self, name, conn, apply=apply_change):
        return Side(name=name, conn=conn, work=lambda: apply(conn, self.offered, now=NOW))

    def editing(self, conn):
        return Side(
            name="edit",
            conn=conn,
            work=lambda: update_record(conn, self.table, self.record.id, {"c1": "mine"}, now=NOW),
        )

    def came_to(self):
        """The status of the change, and the record's cell and version."""
        record = find_record(self.conn, self.table, self.record.id)
        status = row_of(self.conn, "staged_change", self.change_id)["status"]
        return status, (record.data["c1"], record.version)


def test_of_two_workers_one_applies_it_in_every_order(conn, other_conn, sessions):
    def world():
        scene = Scene(conn)
        sides = [scene.applying(f"worker {number}", one) for number, one in enumerate(sessions)]

        def check(run):
            assert scene.came_to() == ("applied", ("proposed", 2)), run.steps

        return sides, check

    assert len(every_interleaving(world, monitor=other_conn)) > 10


def _outcomes(conn, other_conn, sessions, apply):
    seen = []

    def world():
        scene = Scene(conn)
        sides = [scene.applying("worker", sessions[0], apply), scene.editing(sessions[1])]
        return sides, lambda _run: seen.append(scene.came_to())

    every_interleaving(world, monitor=other_conn)
    return set(seen)


# Either it is written, and the edit upon it; or the edit was first, and stands alone.
RIGHT = {("applied", ("mine", 3)), ("failed", ("mine", 2))}
OVERWRITTEN = ("applied", ("proposed", 3))


def test_an_edit_is_never_overwritten_in_any_order(conn, other_conn, sessions):
    assert _outcomes(conn, other_conn, sessions, apply_change) == RIGHT


def _apply_after_a_look(conn, change, *, now):
    with conn.transaction():
        locked = approved_changes.lock_approved(conn, change.id, change.lease_token)
        table = custom_tables.find_table(conn, change.table_id)
        record = find_record(conn, table, locked.record_id)
        ending = {"id": change.id, "token": change.lease_token, "now": now}
        if record.version == locked.base_version:
            update_record(conn, table, record.id, locked.proposed, now=now)
            approved_changes.mark_applied(conn, **ending, record_id=record.id)
        else:
            approved_changes.mark_failed(conn, **ending, error="conflict")


def test_a_version_that_is_compared_before_the_lock_is_caught(conn, other_conn, sessions):
    assert OVERWRITTEN in _outcomes(conn, other_conn, sessions, _apply_after_a_look)
