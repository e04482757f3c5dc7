"""What only the transport without a broker has to see to: it asks the tables itself."""

from tests.builders_db import LONG_AGO, row_of
from tests.builders_work import insert_work, insert_works

_LONG = 600.0
HELD = {"trigger_run": "running", "scheduled_action": "processing"}


def _received(consumer, *, times):
    return [row for _ in range(times) for row in consumer.receive(free=4, timeout=_LONG)]


def test_a_backlog_of_one_tenant_leaves_the_others_their_turn(postgres, open_claims, conn, kind):
    insert_works(conn, kind, count=200)
    small = insert_work(conn, kind, announce_at="2026-07-25Z", next_attempt_at=LONG_AGO)
    consumer = postgres.open_consumer(open_claims())

    received = _received(consumer, times=2)

    assert len(received) == 16
    assert small in {row.id for row in received}


def test_what_is_soon_through_leaves_its_share_to_a_backlog(
    postgres, open_claims, conn, kind, other_kind
):
    insert_works(conn, kind, count=200)
    consumer = postgres.open_consumer(open_claims())
    _received(consumer, times=1)
    insert_work(conn, other_kind)

    received = [row.work_kind for row in _received(consumer, times=1)]

    assert (received.count(kind), received.count(other_kind)) == (7, 1)


def test_four_backlogs_are_served_alike(postgres, open_claims, conn, kind, other_kind):
    for one in (kind, other_kind):
        for urgent in (True, False):
            insert_works(conn, one, count=50, urgent=urgent)
    consumer = postgres.open_consumer(open_claims())

    for free, times in ((4, 4), (1, 8)):
        taken = [row for _ in range(times) for row in consumer.receive(free=free, timeout=_LONG)]
        lanes = [(row.work_kind, row_of(conn, row.work_kind, row.id)["urgent"]) for row in taken]
        assert {lanes.count(lane) for lane in set(lanes)} == {2 * free * times // 4}
        assert len(set(lanes)) == 4


class FailingAtSecond:
    """A worker's claims, of which the second fails."""

    def __init__(self, claims):
        self._claims = claims
        self._left = 1

    def claim_due(self, **asked):
        if not self._left:
            raise ConnectionError("the database is away")
        self._left -= 1
        return self._claims.claim_due(**asked)


def test_what_was_claimed_is_received_although_the_next_claim_fails(
    postgres, open_claims, conn, kind, other_kind
):
    ids = {
        kind: insert_work(conn, kind, urgent=True),
        other_kind: insert_work(conn, other_kind),
    }
    claims = FailingAtSecond(open_claims())
    consumer = postgres.open_consumer(claims)

    (first,) = consumer.receive(free=4, timeout=_LONG)

    assert first.id == ids[first.work_kind]
    assert row_of(conn, first.work_kind, first.id)["status"] == HELD[first.work_kind]
