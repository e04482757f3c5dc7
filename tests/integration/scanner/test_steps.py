"""The scanner's steps in this process: what they measure and sweep, of runs and of actions."""

import pytest
from prometheus_client import REGISTRY

from services.scanner.steps import Scanner
from tests.builders_db import FAR_OFF, LONG_AGO, row_of
from tests.builders_staged import insert_change
from tests.builders_work import insert_work, insert_works

KINDS = ("trigger_run", "scheduled_action")


@pytest.fixture
def scanner():
    return Scanner(None, round_seconds=60, run_retention_days=30)


def _value(name, **labels):
    return REGISTRY.get_sample_value(name, labels)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_due_held_and_stuck_is_measured(conn, scanner, kind):
    (other,) = set(KINDS) - {kind}
    insert_works(conn, kind, count=2)
    insert_work(conn, other)
    insert_work(conn, other, announce_at=FAR_OFF)
    insert_work(conn, kind, status="held", updated_at=FAR_OFF)
    insert_works(conn, kind, count=3, status="failed")
    insert_work(conn, kind, status="held", updated_at=LONG_AGO)

    scanner.measure(conn)

    assert _value("duebook_unfinished_work", status="due") == 3
    assert _value("duebook_unfinished_work", status="running") == 2
    assert _value("duebook_stuck_work", kind=kind) == 4
    assert _value("duebook_stuck_work", kind=other) == 0
    assert _value("duebook_oldest_due_seconds") > 0


def test_what_waits_for_a_review_is_measured(conn, scanner):
    for status in ("pending", "pending", "approved", "rejected", "applied", "failed"):
        insert_change(conn, status=status)

    scanner.measure(conn)

    assert _value("duebook_changes_to_review") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_lost_its_worker_is_taken_back(conn, scanner, kind):
    id = insert_work(conn, kind, status="held", leased_until=LONG_AGO)

    scanner.sweep(conn)

    assert row_of(conn, kind, id)["status"] == "pending"
