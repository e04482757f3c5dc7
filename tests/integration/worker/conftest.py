"""A worker's parts on a real database, driven one step at a time by the test itself."""

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from typing import get_args

import pytest
from psycopg.types.json import Jsonb

from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.executor import Executor
from services.worker.holdings import Holdings
from services.worker.intake import Claimer
from services.worker.performer import Performer
from services.worker.server_time import ServerTime
from services.worker.steps import HandBack
from shared.actions.action import Services
from shared.actions.addresses import AddressPolicy
from shared.actions.http import HttpCaller
from shared.db.connection import connect, open_pool
from shared.db.roles import WORKER
from shared.domain.definitions import definition_body, definition_hash
from shared.domain.work import ReferenceKind
from shared.queries.invariants import list_violations
from shared.tracking.click_store import PostgresClicks
from tests.builders import a_claimed_run
from tests.builders_db import LONG_AGO, insert_records, insert_run, insert_table, row_of
from tests.builders_delayed import insert_action
from tests.integration.actions.receivers import a_receiver
from tests.integration.worker.processes import WorkerProcess

PUBLIC_URL = "https://links.example"


@dataclass(kw_only=True)
class Bench:
    """The parts of one worker, and what a test does with them."""

    conn: object
    pool: object
    committer: Committer
    holdings: Holdings
    performer: Performer
    executor: Executor
    claimer: Claimer
    may_begin: object = field(default=lambda: True)

    def insert(self, *actions, table=None, data=None, when=(), on="record_created", **columns):
        """Insert a due run of these actions on a new record, and return its id."""
        table = table or insert_table(self.conn)
        record = insert_records(self.conn, table, [data or {"c1": "broken lamp"}])[0]
        trigger = {"id": "trg_000000000001", "name": "tell", "on": on}
        if when:
            trigger["when"] = list(when)
        body = definition_body(trigger | {"actions": list(actions)}, table.columns)
        digest = definition_hash(body)
        self.conn.execute(
            "INSERT INTO definition (tenant_id, hash, body) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [table.tenant_id, digest, Jsonb(body)],
        )
        return insert_run(
            self.conn,
            table,
            definition_hash=digest,
            record_id=record.id,
            snapshot=Jsonb(record.data),
            **columns,
        )

    def claim(self):
        """Claim all that is due and return what is held of it."""
        return [
            self.holdings.get(work)
            for kind in get_args(ReferenceKind)
            for urgent in (True, False)
            for work in self.claimer.claim_due(kind=kind, urgent=urgent, limit=100, fairly=False)
        ]

    def execute(self):
        """Claim and execute all that is due; wait until its ends are written."""
        for held in self.claim():
            self.executor.execute(held)
        self.flush()

    def flush(self):
        """Wait until what was submitted so far is written."""
        self.committer.submit(HandBack(work=a_claimed_run(id=-1))).result()

    def wait(self, config, **columns):
        """Insert a due scheduled action, and return its id."""
        delayed = {"action_type": config["type"], "action_config": Jsonb(config)}
        return insert_action(self.conn, **delayed | columns)

    def hurry(self):
        """Make every scheduled action that waits due now, and its deadline with it."""
        self.conn.execute(
            "UPDATE scheduled_action SET next_attempt_at = clock_timestamp(),"
            " announce_at = clock_timestamp(), expires_at = least(expires_at, clock_timestamp())"
            " WHERE status = 'pending'"
        )

    def action(self, action_id):
        return row_of(self.conn, "scheduled_action", action_id)

    def actions(self):
        """All scheduled actions, oldest first."""
        rows = self.conn.execute("SELECT to_jsonb(one) FROM scheduled_action AS one ORDER BY id")
        return [row for (row,) in rows]

    def again(self, run_id):
        """Make a waiting run due now."""
        self.conn.execute(
            "UPDATE trigger_run SET next_attempt_at = clock_timestamp(),"
            " announce_at = clock_timestamp() WHERE id = %s AND status = 'pending'",
            [run_id],
        )

    def run(self, run_id):
        return row_of(self.conn, "trigger_run", run_id)

    def messages(self):
        """The messages delivered, oldest first."""
        rows = self.conn.execute("SELECT message FROM chat_message ORDER BY id")
        return [message for (message,) in rows]


@pytest.fixture
def receiver():
    with a_receiver() as running:
        yield running


@pytest.fixture
def make_bench(conn, database_url):
    """A maker of benches on one database; each is another worker, whose sessions use ``url``."""
    made = []

    def make(*, worker_id=1, gateway_url=None, url=database_url, clicks=None):
        pool = open_pool(url, application_name="worker", size=2, role=WORKER)
        caller = HttpCaller(
            policy=AddressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),)),
            ports=range(1, 65536),
            user_agent="Duebook/test",
        )
        clicks = clicks or PostgresClicks()
        committer = Committer(lambda: connect(url, application_name="committer", role=WORKER))
        committer.start()
        holdings = Holdings()
        bench = None
        performer = Performer(
            pool=pool,
            committer=committer,
            services=Services(
                http=caller,
                gateway_url=gateway_url,
                deadline_seconds=5,
                clicks=clicks,
                public_url=PUBLIC_URL,
            ),
            time=ServerTime(conn),
            may_begin=lambda: bench.may_begin(),
        )
        executor = Executor(
            performer=performer,
            committer=committer,
            holdings=holdings,
            definitions=Definitions(pool),
            clicks=clicks,
            time=ServerTime(conn),
        )
        claimer = Claimer(
            lambda: connect(url, application_name="claimer", role=WORKER),
            worker_id=worker_id,
            holdings=holdings,
            lease_seconds=300,
        )
        bench = Bench(
            conn=conn,
            pool=pool,
            committer=committer,
            holdings=holdings,
            performer=performer,
            executor=executor,
            claimer=claimer,
        )
        made.append((bench, caller))
        return bench

    yield make
    for bench, caller in made:
        bench.committer.close(seconds=5)
        bench.claimer.close()
        bench.pool.close()
        caller.close()


@pytest.fixture
def bench(make_bench):
    return make_bench()


@pytest.fixture
def nothing_broken(conn):
    """Asks at the end of a test whether every invariant holds."""
    yield
    assert list_violations(conn, settled_before=LONG_AGO - timedelta(days=1), limit=5) == []


@pytest.fixture
def start_worker(database_url, tmp_path):
    """Starts worker processes, without a broker unless one is given."""
    workers = []

    def start(*arguments, **environment):
        log = tmp_path / f"worker-{len(workers)}.log"
        environment = {"DATABASE_URL": database_url, **environment}
        workers.append(WorkerProcess(environment, log, arguments or ("services.worker",)))
        return workers[-1]

    yield start
    for worker in workers:
        worker.child.stop()
