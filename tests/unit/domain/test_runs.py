"""Receipts, what a resumed run passes over, and which runs may be retried."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.runs import (
    idempotency_key,
    is_settled,
    receipt,
    retry_refusal,
    run_error,
    stored_receipts,
)

NOW = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)


def a_receipt(*, ok=True, detail=None, **result):
    return receipt(
        "webhook",
        ok=ok,
        detail=detail,
        attempts=2,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=1),
        result=result,
    )


def test_a_receipt_says_what_was_done():
    assert a_receipt(status=200) == {
        "type": "webhook",
        "ok": True,
        "attempts": 2,
        "started_at": "2026-07-25T09:00:00Z",
        "finished_at": "2026-07-25T09:00:01Z",
        "status": 200,
    }


def test_a_failure_has_the_same_keys_and_a_detail():
    failed = a_receipt(ok=False, detail="no route", transient=True)

    assert failed.keys() == a_receipt().keys() | {"detail", "transient"}
    assert failed["detail"] == "no route"
    assert a_receipt(ok=False, detail="")["detail"]


def test_what_was_answered_does_not_pass_for_what_was_done():
    assert a_receipt(ok=True, type="x", attempts=9)["type"] == "webhook"


def test_a_detail_is_cut_at_300_characters_when_it_is_stored():
    [stored] = stored_receipts([a_receipt(ok=False, detail="x" * 301)])

    assert stored == a_receipt(ok=False, detail="x" * 300)
    assert stored_receipts([stored, a_receipt()]) == [stored, a_receipt()]


hostile = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters())
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(st.text(st.characters()), hostile)
def test_a_receipt_can_always_be_stored(detail, result):
    kept = a_receipt(ok=False, detail=detail, body=result)

    text = json.dumps(kept, allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()


def test_a_receipt_has_an_end():
    deep = []
    for _ in range(2000):
        deep = [deep]

    kept = a_receipt(body="x" * 100_000, many=list(range(10_000)), deep=deep)

    assert len(json.dumps(kept)) < 10_000


def test_an_error_names_the_action():
    assert run_error(2, "webhook", "410 Gone") == "action 2 (webhook): 410 Gone"


def test_an_error_is_cut_at_1000_characters_and_clean():
    error = run_error(1, "notify", "\x00\ud800" + "x" * 2000)

    assert len(error) == 1000
    assert error.startswith("action 1 (notify): \ufffd\ufffdx")


CONTINUE = {"on_error": "continue"}


@pytest.mark.parametrize(
    ("known", "action", "settled"),
    [
        ({"ok": True}, {}, True),
        ({"ok": True}, {"on_error": "stop"}, True),
        ({"ok": False, "transient": False}, {}, False),
        ({"ok": False, "transient": False}, {"on_error": "stop"}, False),
        ({"ok": False, "transient": False}, CONTINUE, True),
        ({"ok": False, "transient": True}, CONTINUE, False),
    ],
)
def test_a_resumed_run_passes_over_what_is_settled(known, action, settled):
    assert is_settled(known, action=action) is settled


def test_the_message_for_who_may_not():
    assert (
        retry_refusal("done")
        == "run is done; only failed/pending (or stale-running) runs can be retried"
    )


KEY = {
    "tenant_id": UUID(int=1),
    "table_id": UUID(int=2),
    "trigger_id": "trg_000000000001",
    "record_id": 3,
    "identity": "2026-07-25",
    "written_at": None,
    "position": 0,
}


def test_an_idempotency_key_is_always_the_same():
    pinned = "96242443e41a4c615fd8e3ea89b6670abff95e1ed81b70d01b84b12257394ce5"

    assert idempotency_key(**KEY) == pinned


@pytest.mark.parametrize(
    "change",
    [
        {"tenant_id": UUID(int=9)},
        {"table_id": UUID(int=9)},
        {"trigger_id": "trg_000000000002"},
        {"record_id": None},
        {"identity": "2026-07-26"},
        {"written_at": NOW},
        {"position": 1},
    ],
)
def test_each_part_makes_another_key(change):
    assert idempotency_key(**KEY | change) != idempotency_key(**KEY)
