"""The servers and databases of the tests. Each starts when the first test that needs it runs."""

from dataclasses import dataclass
from uuid import uuid4

import hypothesis
import psycopg
import pytest
import structlog
from pytest_postgresql import factories

from services.cli.embedded_postgres import PostgresServer, free_port
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database
from tests.servers.faulty_proxy import faulty_proxy
from tests.servers.postgres import LOGINS, ROLE, running_postgres
from tests.servers.rabbitmq import given_broker, running_node
from tests.servers.redis import given_redis, running_redis

# A busy machine is no reason to fail.
hypothesis.settings.register_profile("house", deadline=None, print_blob=True)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def own_log(monkeypatch):
    """Logging as it is before anybody sets it up, for each test anew, but with plain traces.

    What a command sets up in our own process, and loggers that remember it, would outlast its test.
    The default traces print all local variables: that takes seconds on a busy machine.
    """
    configure = structlog.configure
    structlog.reset_defaults()
    plain = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    never = {"cache_logger_on_first_use": False}
    monkeypatch.setattr(structlog, "configure", lambda **options: configure(**options | never))
    yield
    structlog.reset_defaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What pytest-postgresql asks of a server that runs already."""

    server: PostgresServer
    host: str = "127.0.0.1"
    user: str = "postgres"
    options: str = ""
    maintenance_dbname: str = "postgres"
    template_dbname: str | None = None

    @property
    def port(self):
        return self.server.port

    @property
    def password(self):
        return self.server.password


@pytest.fixture(scope="session")
def postgres_process():
    """One PostgreSQL server for the session."""
    with running_postgres() as server:
        yield _Process(server=server)


def _migrate_template(*, host, port, user, dbname, password, autocommit):
    """Make the database that every test gets a copy of; its tables belong to the product's role."""
    admin_url = f"postgresql://{user}:{password}@{host}:{port}/{dbname}"
    with psycopg.connect(admin_url, autocommit=autocommit) as admin:
        admin.execute(f"GRANT CREATE ON SCHEMA public TO {ROLE}")
    migrate(f"postgresql://{ROLE}:{password}@{host}:{port}/{dbname}")


template = factories.postgresql_noproc(
    depends_on="postgres_process", dbname="duebook", load=[_migrate_template], load_autocommit=True
)


@pytest.fixture(scope="session")
def server_admin(postgres_process):
    """A superuser's session on the server."""
    url = postgres_process.server.url("postgres")
    with connect(url, application_name="tests", statement_seconds=0) as session:
        yield session


@pytest.fixture
def database_url(postgres_process, server_admin, template):
    """The URL of a fresh database with every migration, for the product's role.

    Files are copied, on a session that stays: the plugin's own copies open three sessions each and
    write every page to the log, which thousands of tests feel.
    """
    name, source = f"copy_{uuid4().hex}", template.template_dbname
    server_admin.execute(f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY FILE_COPY")
    yield postgres_process.server.url(name, role=ROLE)
    server_admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def login_url(postgres_process, database_url):
    """The URL of the fresh database for the login of a service, which has that role alone."""

    def url(service):
        return postgres_process.server.url(database_url.rpartition("/")[2], role=LOGINS[service])

    return url


@pytest.fixture
def empty_database_url(postgres_process, server_admin):
    """The URL of a database without any table."""
    ensure_database(server_admin, database="empty", owner=ROLE)
    yield postgres_process.server.url("empty", role=ROLE)
    server_admin.execute("DROP DATABASE empty WITH (FORCE)")


@pytest.fixture
def proxy(database_url):
    """A way to the fresh database that loses answers, or falls silent, when a test says so."""
    with faulty_proxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def conn(database_url):
    """A session on the fresh database: it may commit, and open further sessions."""
    with connect(database_url, application_name="test") as connection:
        yield connection


@pytest.fixture
def other_conn(database_url):
    """A second session on the same database, for what two processes do to each other."""
    with connect(database_url, application_name="other-test") as connection:
        yield connection


@pytest.fixture(scope="session")
def rabbit_node():
    """A broker of our own for the session; tests may ``stop``, ``kill`` and ``start`` it."""
    with running_node() as node:
        yield node


@pytest.fixture(scope="session")
def rabbit_broker(request):
    """The broker of the session: the one that AMQP_URL names, else our own."""
    return given_broker() or request.getfixturevalue("rabbit_node").broker


@pytest.fixture
def rabbit_url(rabbit_broker):
    """The AMQP URL of a fresh virtual host."""
    name = f"test-{uuid4().hex}"
    yield rabbit_broker.create_vhost(name)
    rabbit_broker.delete_vhost(name)


@pytest.fixture
def restartable_rabbit(rabbit_node):
    """A node and the AMQP URL of a fresh virtual host in it, for tests that restart the broker."""
    name = f"test-{uuid4().hex}"
    yield rabbit_node, rabbit_node.broker.create_vhost(name)
    rabbit_node.start()
    rabbit_node.broker.delete_vhost(name)


@pytest.fixture(scope="session")
def redis_node():
    """A Redis of our own for the session; tests may ``stop`` and ``start`` it."""
    with running_redis() as node:
        yield node


@pytest.fixture
def redis_url(request):
    """The URL of a Redis: the one that REDIS_URL names, else our own. Keys are never cleaned."""
    return given_redis() or request.getfixturevalue("redis_node").url


@pytest.fixture
def restartable_redis(redis_node):
    """A Redis of our own that a test may ``stop``; it comes back empty."""
    yield redis_node
    redis_node.start()


@pytest.fixture
def unused_port():
    """A port of 127.0.0.1 on which nobody listens."""
    return free_port()
