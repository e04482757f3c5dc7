"""A standby that was promoted knows no worker's lock, and keeps the time of its start."""

import pytest

from shared.db.connection import connect
from shared.db.roles import SCANNER, WORKER
from shared.queries.work import recover_stale
from tests.builders_db import insert_run
from tests.servers.replication import running_pair

_SINCE_START = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float"


@pytest.fixture
def pair():
    """A primary and its standby."""
    with running_pair() as pair:
        pair.confirm_on_the_standby()
        yield pair


@pytest.mark.parametrize("role", [SCANNER, WORKER])
def test_while_a_session_is_young_after_a_promotion_only_the_lease_counts(pair, role):
    with connect(pair.url, application_name="before") as before:
        run_id = insert_run(before, status="running", worker_id=5)
    pair.kill_primary()
    pair.promote()

    # With the rights of who recovers: to others than the owner the server tells less.
    with connect(pair.url, application_name="after", role=role) as after:
        (since_start,) = after.execute(_SINCE_START).fetchone()
        between = (after.age_seconds + since_start) / 2
        assert recover_stale(after, kind="trigger_run", restart_grace_seconds=between) == []
        recovered = recover_stale(after, kind="trigger_run", restart_grace_seconds=0)

    assert [run.id for run in recovered] == [run_id]
