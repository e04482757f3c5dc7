"""What only the transport without a broker has to see to: it asks the table itself."""

from tests.builders_db import LONG_AGO, insert_runs, row_of

_LONG = 600.0


def test_a_backlog_of_one_tenant_leaves_the_others_their_turn(postgres, open_claims, conn):
    insert_runs(conn, count=200)
    (small,) = insert_runs(conn, count=1, announce_at="2026-07-25Z", next_attempt_at=LONG_AGO)
    consumer = postgres.open_consumer(open_claims())

    received = [run for _ in range(2) for run in consumer.receive(free=4, timeout=_LONG)]

    assert len(received) == 16
    assert small in {run.id for run in received}


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


def test_what_was_claimed_is_received_although_the_next_claim_fails(postgres, open_claims, conn):
    (urgent,) = insert_runs(conn, count=1, urgent=True)
    insert_runs(conn, count=1)
    claims = FailingAtSecond(open_claims())
    consumer = postgres.open_consumer(claims)

    received = consumer.receive(free=4, timeout=_LONG)

    assert [run.id for run in received] == [urgent]
    assert row_of(conn, "trigger_run", urgent)["status"] == "running"
