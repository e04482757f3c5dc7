"""A standby that was promoted knows no worker's lock, and keeps the time of its start."""

import pytest

from shared.db.connection import connect
from shared.queries.work import recover_stale
from tests.builders_db import insert_run
from tests.servers.replication import running_pair

_AGES = """
SELECT
    extract(epoch FROM clock_timestamp() - backend_start)::float,
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float
FROM pg_stat_get_activity(pg_backend_pid())
"""


@pytest.fixture
def pair():
    """A primary and its standby."""
    with running_pair() as pair:
        pair.confirm_on_the_standby()
        yield pair


def test_while_a_session_is_young_after_a_promotion_only_the_lease_counts(pair):
    with connect(pair.url, application_name="before") as before:
        run_id = insert_run(before, status="running", worker_id=5)
    pair.kill_primary()
    pair.promote()

    with connect(pair.url, application_name="after") as after:
        since_begin, since_start = after.execute(_AGES).fetchone()
        between = (since_begin + since_start) / 2
        assert recover_stale(after, kind="trigger_run", restart_grace_seconds=between) == []
        recovered = recover_stale(after, kind="trigger_run", restart_grace_seconds=0)

    assert [run.id for run in recovered] == [run_id]
