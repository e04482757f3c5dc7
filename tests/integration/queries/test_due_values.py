from datetime import timedelta
from uuid import UUID

import pytest

from shared.queries.due_values import (
    DuePointer,
    DueValue,
    next_fire_at,
    put_due_values,
    remove_due_values,
    take_due,
    take_due_fairly,
)
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_state, insert_table

FIRST = UUID(int=0)


@pytest.fixture
def state(conn):
    return insert_state(conn, insert_table(conn))


def _put(conn, state, record_id, *, fire_at=LONG_AGO, version=1):
    entry = DueValue(trigger_ref=state.ref, record_id=record_id, version=version, fire_at=fire_at)
    put_due_values(conn, tenant_id=state.tenant_id, entries=[entry])


def _stored(conn):
    return conn.execute("SELECT record_id, version, fire_at FROM due_value ORDER BY 1").fetchall()


def _ids(pointers):
    return [pointer.record_id for pointer in pointers]


def test_a_later_version_replaces_an_entry_and_an_older_one_does_not(conn, state):
    _put(conn, state, 7, version=2, fire_at=NOW)

    _put(conn, state, 7, version=1, fire_at=FAR_OFF)
    assert _stored(conn) == [(7, 2, NOW)]

    _put(conn, state, 7, version=2, fire_at=FAR_OFF)
    _put(conn, state, 7, version=3, fire_at=LONG_AGO)
    assert _stored(conn) == [(7, 3, LONG_AGO)]


def test_entries_are_removed_by_name(conn, state):
    for record_id in (1, 2):
        _put(conn, state, record_id)

    remove_due_values(
        conn, [DuePointer(trigger_ref=state.ref, record_id=record_id) for record_id in (1, 404)]
    )

    assert [row[0] for row in _stored(conn)] == [2]


def test_nothing_is_a_fine_number_of_entries(conn, state):
    put_due_values(conn, tenant_id=state.tenant_id, entries=[])
    remove_due_values(conn, [])

    assert _stored(conn) == []


def test_due_entries_are_taken_oldest_first(conn, state):
    _put(conn, state, 1, fire_at=NOW)
    _put(conn, state, 2, fire_at=LONG_AGO)
    _put(conn, state, 3, fire_at=FAR_OFF)

    assert _ids(take_due(conn, now=NOW, limit=1)) == [2]
    assert _ids(take_due(conn, now=NOW, limit=10)) == [1]
    assert [row[0] for row in _stored(conn)] == [3]


@pytest.mark.parametrize("fairly", [False, True])
def test_two_passes_never_share_an_entry(conn, other_conn, state, fairly):
    for record_id in range(4):
        _put(conn, state, record_id)

    def take(session, limit):
        if fairly:
            return take_due_fairly(session, now=NOW, limit=limit, after=FIRST)
        return take_due(session, now=NOW, limit=limit)

    with conn.transaction():
        first = take(conn, 2)
        second = take(other_conn, 10)

    assert sorted(_ids(first) + _ids(second)) == [0, 1, 2, 3]
    assert len(first) == 2


def test_a_small_tenant_is_looked_at_beside_a_flood(conn, state):
    for record_id in range(50):
        _put(conn, state, record_id)
    small = insert_state(conn, insert_table(conn))
    _put(conn, small, 99, fire_at=NOW)

    taken = take_due_fairly(conn, now=NOW, limit=10, after=FIRST)

    assert small.ref in {pointer.trigger_ref for pointer in taken}
    assert len(taken) == 10


def test_nothing_ahead_is_taken_fairly(conn, state):
    _put(conn, state, 1, fire_at=NOW + timedelta(microseconds=1))

    assert take_due_fairly(conn, now=NOW, limit=10, after=FIRST) == []


def test_the_next_look_is_the_earliest_entry(conn, state):
    assert next_fire_at(conn) is None

    _put(conn, state, 1, fire_at=FAR_OFF)
    _put(conn, state, 2, fire_at=NOW)

    assert next_fire_at(conn) == NOW
