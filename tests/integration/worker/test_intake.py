"""Claims of a worker whose rows somebody else has locked just now."""

from typing import get_args

import psycopg
import pytest

from services.worker import intake
from shared.domain.work import Reference, WorkKind
from shared.queries import claims
from tests.builders_db import cells_of, row_of
from tests.builders_work import insert_work, insert_works


@pytest.fixture(params=get_args(WorkKind))
def kind(request):
    """Each test that takes it holds for both tables."""
    return request.param


def _reference(conn, kind, id):
    return Reference(id=id, token=cells_of(conn, kind, id, "lease_token")[0])


def _lock(conn, kind, id):
    """Lock a row as a look for due rows does that another one was ahead of, to its commit."""
    conn.execute("BEGIN")
    conn.execute(f"SELECT FROM {kind} WHERE id = %s FOR UPDATE", [id])


@pytest.fixture
def pauses(monkeypatch):
    """What happens during each pause, in order; nothing behind the last."""
    events = []

    def pause(_seconds):
        if events:
            events.pop(0)()

    monkeypatch.setattr(intake, "pause", pause)
    return events


def test_a_reference_whose_row_is_locked_for_a_moment_is_claimed(
    bench, conn, other_conn, kind, pauses
):
    free, locked = insert_works(conn, kind, count=2)
    _lock(other_conn, kind, locked)
    pauses += [lambda: None, other_conn.rollback]

    claimed = bench.claimer.claim(kind, [_reference(conn, kind, id) for id in (locked, free)])

    assert [one.id for one in claimed] == [free, locked]
    assert not pauses


def test_one_that_stays_locked_is_left_to_its_next_announcement(
    bench, conn, other_conn, kind, pauses
):
    id = insert_work(conn, kind)
    _lock(other_conn, kind, id)

    assert bench.claimer.claim(kind, [_reference(conn, kind, id)]) == []

    assert row_of(conn, kind, id)["status"] == "pending"


def test_what_somebody_else_has_is_not_waited_for(bench, conn, kind, pauses):
    reference = _reference(conn, kind, insert_work(conn, kind))
    assert len(bench.claimer.claim(kind, [reference])) == 1
    pauses.append(lambda: pytest.fail("waited for a row that is held"))

    assert bench.claimer.claim(kind, [reference]) == []


def test_what_is_held_gets_to_its_threads_when_the_second_look_fails(
    bench, conn, other_conn, kind, pauses, monkeypatch
):
    free, locked = insert_works(conn, kind, count=2)
    _lock(other_conn, kind, locked)

    def fail(*_args, **_options):
        raise psycopg.OperationalError("the database is away")

    monkeypatch.setattr(claims, "list_offered", fail)

    claimed = bench.claimer.claim(kind, [_reference(conn, kind, id) for id in (locked, free)])

    assert [one.id for one in claimed] == [free]
