"""Both transports behind one face, and rows for them to carry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args
from uuid import UUID, uuid4

import pytest

from shared.db.connection import connect
from shared.domain.work import Announced, Reference, ReferenceKind, WorkKind
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.amqp_consumer import AmqpConsumer
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.messaging.postgres_transport import PostgresConsumer
from shared.queries import approved_changes, claims
from shared.queries.announcements import announce_batch
from shared.queries.notifications import listen_for_work, notify_work
from tests.builders_db import insert_worker

FIRE_BATCH = 4


class Claims:
    """A worker's claims, as the product makes them; it fails as often as ``failures`` says."""

    def __init__(self, conn):
        self._conn = conn
        self.failures = 0
        self.worker_id = insert_worker(conn)

    def _lease(self):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")
        return {"worker_id": self.worker_id, "lease_token": uuid4(), "lease_seconds": 300}

    def claim(self, kind, references):
        if kind == "staged_change":
            self._lease()
            return approved_changes.list_approved(self._conn, references)
        take = claims.claim if kind == "trigger_run" else claims.claim_actions
        return _claimed(kind, take(self._conn, references, **self._lease()))

    def claim_due(self, *, kind, urgent, limit, fairly):
        if kind == "staged_change":
            self._lease()
            after = UUID(int=0) if fairly else None
            announced = approved_changes.announce_changes(self._conn, limit=limit, after=after)
            return self.claim(kind, [Reference(id=row.id, token=row.token) for row in announced])
        take = claims.claim_due if kind == "trigger_run" else claims.claim_due_actions
        asked = {"urgent": urgent, "limit": limit, "after": UUID(int=0) if fairly else None}
        return _claimed(kind, take(self._conn, **asked, **self._lease()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What of a claimed row a transport may look at."""

    work_kind: ReferenceKind
    id: int


def _claimed(kind, rows):
    return [Taken(work_kind=kind, id=row if kind == "scheduled_action" else row.id) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """What the contract is about: to offer all that is due, and consumers of it."""

    name: str
    announce: Callable[[], list[Announced]]
    open_consumer: Callable[..., object]
    cut: Callable[[], None]  # every connection of a consumer, from the server's side


@pytest.fixture
def opened():
    """Consumers and publishers to be closed after the test, the youngest first."""
    things = []
    yield things
    for thing in reversed(things):
        thing()


@pytest.fixture
def open_claims(database_url, opened):
    """Opens the claims of one more worker."""

    def open_claims():
        conn = connect(database_url, application_name="claims")
        opened.append(conn.close)
        return Claims(conn)

    return open_claims


@pytest.fixture
def publisher(rabbit_url, opened):
    publisher = AmqpPublisher(rabbit_url, fire_batch=FIRE_BATCH)
    opened.append(publisher.close)
    assert wait_until(publisher.ready, seconds=30)
    return publisher


@pytest.fixture
def open_amqp_consumer(rabbit_url, opened):
    def open_consumer(claims, *, threads=4):
        consumer = AmqpConsumer(
            rabbit_url,
            queues=topology.WORK_QUEUES,
            threads=threads,
            fire_batch=FIRE_BATCH,
            claimer=claims,
        )
        opened.append(consumer.stop)
        assert wait_until(consumer.ready, seconds=30)
        return consumer

    return open_consumer


@pytest.fixture
def amqp(conn, publisher, open_amqp_consumer, rabbit_broker, rabbit_url):
    def announce():
        announced = [
            row
            for urgent in (True, False)
            for kind in get_args(WorkKind)
            for row in announce_batch(conn, kind=kind, urgent=urgent, limit=10_000)
        ]
        announced += approved_changes.announce_changes(conn, limit=10_000, after=None)
        assert publisher.publish(announced) == []
        return announced

    return Transport(
        name="amqp",
        announce=announce,
        open_consumer=open_amqp_consumer,
        cut=lambda: cut_connections(rabbit_broker, rabbit_url, "duebook-consumer"),
    )


@pytest.fixture
def postgres(conn, database_url, opened):
    def open_session():
        session = connect(database_url, application_name="duebook-listener")
        listen_for_work(session)
        return session

    def open_consumer(claims, *, threads=4):
        consumer = PostgresConsumer(open_session, claimer=claims)
        opened.append(consumer.stop)
        return consumer

    return Transport(
        name="postgres",
        announce=lambda: notify_work(conn),
        open_consumer=open_consumer,
        cut=lambda: conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'duebook-listener'"
        ),
    )


@pytest.fixture(params=get_args(WorkKind))
def kind(request):
    """Each test that takes it runs with rows of both tables."""
    return request.param


@pytest.fixture
def other_kind(kind):
    (other,) = set(get_args(WorkKind)) - {kind}
    return other


@pytest.fixture(params=["amqp", "postgres"])
def transport(request):
    """Each test that takes it runs over both."""
    return request.getfixturevalue(request.param)


def cut_connections(broker, url, name):
    """End the connections of that name in the URL's virtual host, as an administrator would."""
    vhost = url.rpartition("/")[2]

    def named():
        return [
            connection["name"]
            for connection in broker.call("GET", f"/api/vhosts/{vhost}/connections")
            if connection["client_properties"].get("connection_name") == name
        ]

    assert wait_until(named, seconds=30)
    for connection in named():
        broker.call("DELETE", f"/api/connections/{connection.replace(' ', '%20')}")
