import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messaging.click_messages import MAX_TOKEN, ToldClick, read_clicks
from shared.messaging.messages import MAX_ITEMS, UnreadableMessage

_AT = "2026-08-27T05:02:13Z"


def _message(**changes):
    return json.dumps({"v": 1, "items": [["a", _AT]], **changes}).encode()


@pytest.mark.parametrize(
    ("told", "at"),
    [
        (_AT, datetime(2026, 8, 27, 5, 2, 13, tzinfo=UTC)),
        ("2026-08-27T13:02:13+08:00", datetime(2026, 8, 27, 5, 2, 13, tzinfo=UTC)),
        ("2026-08-27T05:02:13.000001Z", datetime(2026, 8, 27, 5, 2, 13, 1, tzinfo=UTC)),
    ],
)
def test_clicks_are_read_with_their_instants_in_utc(told, at):
    assert read_clicks(_message(items=[["a", told]])) == [ToldClick(token="a", clicked_at=at)]


def test_a_message_may_hold_many():
    assert len(read_clicks(_message(items=[["t" * MAX_TOKEN, _AT]] * MAX_ITEMS))) == MAX_ITEMS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"v":1,"v":1,"items":[["a","2026-08-27T05:02:13Z"]]}',
        _message(v=2),
        _message(v=True),
        _message(kind="tracking_click"),
        _message(items=None),
        _message(items=[]),
        _message(items=[["a", _AT]] * (MAX_ITEMS + 1)),
        _message(items=["a"]),
        _message(items=[["a"]]),
        _message(items=[["a", _AT, 1]]),
        _message(items=[[1, _AT]]),
        _message(items=[["", _AT]]),
        _message(items=[["t" * (MAX_TOKEN + 1), _AT]]),
        _message(items=[["a", None]]),
        _message(items=[["a", 1]]),
        _message(items=[["a", "2026-08-27T05:02:13"]]),
        _message(items=[["a", "2026-08-27 05:02:13Z"]]),
        _message(items=[["a", "2026-02-30T05:02:13Z"]]),
        _message(items=[["a", "0001-01-01T00:00:00+23:59"]]),
        _message(items=[["a", "9999-12-31T23:59:59-23:59"]]),
        _message(items=[["a", "२०२६-08-27T05:02:13Z"]]),
    ],
)
def test_anything_else_is_refused(body):
    with pytest.raises(UnreadableMessage):
        read_clicks(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    with contextlib.suppress(UnreadableMessage):
        assert read_clicks(body)
