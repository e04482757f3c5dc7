import contextlib
import json
from typing import get_args
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.work import Announced, Reference, ReferenceKind
from shared.messaging.messages import MAX_ITEMS, Batch, UnreadableMessage, pack, read_batch

_TOKEN = "0b6ad3a4-9c2f-4c0e-8a5b-2f4d6c1e7a90"


def _message(**changes):
    return json.dumps({"v": 1, "kind": "trigger_run", "items": [[7, _TOKEN]], **changes}).encode()


def _rows(*, kind="trigger_run", urgent=False, worker_losses=0, count=1, first=1):
    return [
        Announced(
            kind=kind,
            id=id,
            token=uuid4(),
            urgent=urgent,
            worker_losses=worker_losses,
            announcements=1,
        )
        for id in range(first, first + count)
    ]


@pytest.mark.parametrize("kind", get_args(ReferenceKind))
def test_a_batch_is_written_in_the_documented_form(kind):
    batch = Batch(kind=kind, items=(Reference(id=7, token=UUID(_TOKEN)),))

    assert batch.to_bytes() == b'{"v":1,"kind":"%s","items":[[7,"%s"]]}' % (
        kind.encode(),
        _TOKEN.encode(),
    )


@given(
    st.sampled_from(get_args(ReferenceKind)),
    st.lists(st.tuples(st.integers(1, 2**63 - 1), st.uuids()), min_size=1, max_size=MAX_ITEMS).map(
        lambda items: tuple(Reference(id=id, token=token) for id, token in items)
    ),
)
def test_what_is_written_is_read_back(kind, items):
    batch = Batch(kind=kind, items=items)

    assert read_batch(batch.to_bytes()) == batch


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 10_000,
        b"[]",
        b'"text"',
        b"{}",
        b'{"v":1,"v":1,"kind":"trigger_run","items":[]}',
        _message(v=2),
        _message(v=True),
        _message(v="1"),
        _message(v=1.0),
        _message(kind="tracking_click"),
        _message(kind=""),
        _message(kind=["trigger_run"]),
        _message(more=1),
        _message(items=None),
        _message(items=[]),
        _message(items=[[7, _TOKEN]] * (MAX_ITEMS + 1)),
        _message(items=[7]),
        _message(items=[[7]]),
        _message(items=[[7, _TOKEN, 0]]),
        _message(items=[["7", _TOKEN]]),
        _message(items=[[True, _TOKEN]]),
        _message(items=[[0, _TOKEN]]),
        _message(items=[[2**63, _TOKEN]]),
        _message(items=[[7.0, _TOKEN]]),
        _message(items=[[7, None]]),
        _message(items=[[7, _TOKEN.upper()]]),
        _message(items=[[7, _TOKEN.replace("-", "")]]),
        _message(items=[[7, "z" * 36]]),
        _message(items=[[7, _TOKEN], [8, "{" + _TOKEN[:34] + "}"]]),
    ],
)
def test_anything_else_is_refused(body):
    with pytest.raises(UnreadableMessage):
        read_batch(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    with contextlib.suppress(UnreadableMessage):
        assert isinstance(read_batch(body), Batch)


def test_rows_are_packed_in_order_up_to_the_size():
    rows = _rows(count=45)

    assert list(pack(rows, size=20)) == [rows[:20], rows[20:40], rows[40:]]


def test_urgent_rows_share_no_message_with_others():
    late, soon = _rows(count=2), _rows(count=2, first=10, urgent=True)

    packed = list(pack([late[0], soon[0], late[1], soon[1]], size=20))

    assert sorted(packed, key=len) == sorted([soon, late], key=len)
    assert soon in packed
    assert late in packed


def test_rows_of_two_kinds_share_no_message():
    runs, actions = _rows(count=2), _rows(kind="scheduled_action", count=2)
    soon = _rows(kind="scheduled_action", count=1, first=10, urgent=True)

    packed = list(pack([runs[0], actions[0], *soon, runs[1], actions[1]], size=20))

    assert len(packed) == 3
    assert all(group in packed for group in (runs, actions, soon))


def test_changes_share_no_message_with_work_that_is_as_urgent():
    runs, changes = _rows(count=2, urgent=True), _rows(kind="staged_change", count=2, urgent=True)

    assert list(pack([*changes, *runs], size=20)) == [runs, changes]


def test_a_row_that_cost_a_worker_its_life_is_alone():
    healthy, killers = _rows(count=3), _rows(count=2, first=10, worker_losses=1)

    packed = list(pack([killers[0], *healthy, killers[1]], size=20))

    assert packed == [healthy, [killers[0]], [killers[1]]]
