"""docs/messages.md is held against what is written, read and declared."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args
from uuid import uuid4

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.tracking import is_link_token
from shared.domain.work import Reference, ReferenceKind
from shared.messaging import topology
from shared.messaging.click_messages import read_clicks
from shared.messaging.messages import MAX_ITEMS, Batch, UnreadableMessage, read_batch

_PAGE = (Path(__file__).parents[3] / "docs/messages.md").read_text()
_EXAMPLE, _SCHEMA, _CLICKS, _CLICKS_SCHEMA = re.findall(r"```json\n(.+?)```", _PAGE, re.DOTALL)
_VALIDATOR = jsonschema.Draft202012Validator(json.loads(_SCHEMA))
_CLICKS_VALIDATOR = jsonschema.Draft202012Validator(json.loads(_CLICKS_SCHEMA))


def test_the_documented_example_is_a_message():
    assert read_batch(_EXAMPLE.strip().encode()).to_bytes() == _EXAMPLE.strip().encode()


@pytest.mark.parametrize("kind", get_args(ReferenceKind))
@pytest.mark.parametrize("count", [1, MAX_ITEMS])
def test_what_we_write_fits_the_schema(kind, count):
    items = tuple(Reference(id=2**63 - 1, token=uuid4()) for _ in range(count))

    _VALIDATOR.validate(json.loads(Batch(kind=kind, items=items).to_bytes()))


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.uuids().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "v": st.sampled_from([1, 2, "1"]) | _ANY,
            "kind": st.sampled_from([*get_args(ReferenceKind), "tracking_click"]) | _ANY,
            "items": st.lists(st.tuples(st.integers(1, 9), st.uuids().map(str)), max_size=2) | _ANY,
            "more": _ANY,
        },
    )
)
def test_what_the_schema_refuses_is_not_read(message):
    message = json.loads(json.dumps(message))

    try:
        read_batch(json.dumps(message).encode())
    except UnreadableMessage:
        # The reader is at least as strict: a Boolean is no integer, 1.0 is no version.
        return
    assert _VALIDATOR.is_valid(message)


def test_the_documented_clicks_are_a_message():
    (click,) = read_clicks(_CLICKS.strip().encode())

    assert is_link_token(click.token)
    assert click.clicked_at == datetime(2026, 8, 27, 5, 2, 13, tzinfo=UTC)
    assert _CLICKS_VALIDATOR.is_valid(json.loads(_CLICKS))


_INSTANTS = st.sampled_from(
    ["2026-08-27T05:02:13Z", "2026-08-27T05:02:13.1+08:00", "2026-08-27T05:02:13", "2026-08-27"]
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "v": st.sampled_from([1, 2, "1"]) | _ANY,
            "items": st.lists(st.tuples(st.text(max_size=3), _INSTANTS), max_size=2) | _ANY,
            "more": _ANY,
        },
    )
)
def test_clicks_that_the_schema_refuses_are_not_read(message):
    message = json.loads(json.dumps(message))

    try:
        read_clicks(json.dumps(message).encode())
    except UnreadableMessage:
        return
    assert _CLICKS_VALIDATOR.is_valid(message)


def test_every_queue_and_argument_is_documented():
    for queue in topology.QUEUES:
        assert f"`{queue.name}`" in _PAGE
        for argument, value in queue.arguments.items():
            assert f"`{argument}`" in _PAGE
            assert str(value) in _PAGE
