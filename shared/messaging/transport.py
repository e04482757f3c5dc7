"""Which transport a process uses: RabbitMQ if a broker is configured, else PostgreSQL itself."""

from psycopg import Connection

from shared.db.connection import connect
from shared.db.roles import WORKER
from shared.messaging import topology
from shared.messaging.amqp_consumer import AmqpConsumer
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.messaging.click_consumer import ClickConsumer
from shared.messaging.ports import Claimer, Consumer, Publisher
from shared.messaging.postgres_transport import PostgresConsumer
from shared.queries.notifications import listen_for_work
from shared.settings import Settings


def open_publisher(settings: Settings) -> Publisher | None:
    """Return the scanner's publisher; None without a broker: workers find the rows themselves."""
    if settings.amqp_url is None:
        return None
    return AmqpPublisher(settings.amqp_url.reveal(), fire_batch=settings.fire_batch)


def open_consumer(settings: Settings, claimer: Claimer) -> Consumer:
    """Return a worker's consumer: of its roles' queues, or of all that is due without a broker."""
    if settings.amqp_url is None:
        return PostgresConsumer(lambda: _listening_session(settings), claimer=claimer)
    return AmqpConsumer(
        settings.amqp_url.reveal(),
        queues=[topology.QUEUE_OF_ROLE[role] for role in settings.worker_roles],
        threads=settings.worker_threads,
        fire_batch=settings.fire_batch,
        claimer=claimer,
    )


def open_click_consumer(settings: Settings) -> ClickConsumer | None:
    """Return the consumer of other trackers' clicks; None without a broker or the role for it."""
    if settings.amqp_url is None or "action-worker" not in settings.worker_roles:
        return None
    return ClickConsumer(settings.amqp_url.reveal())


def _listening_session(settings: Settings) -> Connection:
    url = settings.database_url.reveal()
    conn = connect(url, application_name="duebook-listener", role=WORKER)
    listen_for_work(conn)
    return conn
