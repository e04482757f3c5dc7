"""The servers below a run: they crash, come back, and come back empty."""

import os
import signal
import threading
from contextlib import ExitStack, contextmanager

import psycopg
from redis import Redis

from services.cli.embedded_postgres import start_postgres
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database, ensure_login, ensure_role
from shared.lifecycle import wait_until
from tests.servers.postgres import LOGINS, ROLE
from tests.servers.rabbitmq import running_node
from tests.servers.redis import running_redis
from tests.servers.temporary import temporary_folder

# The machine does not go down, so that what was written is there; what was committed is written.
_OPTIONS = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300")
_DATABASE = "chaos"
_SECONDS = 60.0
_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'duebook%' ORDER BY pid
"""


class Postgres:
    """A server with one migrated database; each start has a port of its own."""

    def __init__(self, folder):
        self._folder = folder
        self._server = None
        self._lock = threading.Lock()
        self.start()
        with self.session("postgres") as admin:
            password = self._server.password
            ensure_role(admin, role=ROLE, password=password)
            for service, login in LOGINS.items():
                ensure_login(admin, login=login, password=password, service=service)
            ensure_database(admin, database=_DATABASE, owner=ROLE)
        migrate(self.url())

    def url(self, login=ROLE):
        """For who has this login; without one for the owner of the tables."""
        return self._server.url(_DATABASE, role=login)

    def session(self, database=_DATABASE):
        """A superuser's session, past every proxy."""
        return connect(self._server.url(database), application_name="chaos", statement_seconds=120)

    def start(self):
        self._server = start_postgres(self._folder / "home", options=_OPTIONS, temporary=True)

    def crash(self):
        """End it at once (immediate): whatever was open is lost."""
        os.kill(self._server.child.pid, signal.SIGQUIT)
        self._server.child.wait(seconds=_SECONDS)
        self._server.child.kill()

    def crash_backend(self, dice):
        """Kill one session's backend, upon which the server ends all and begins anew."""
        with self.session() as conn:
            pids = [pid for (pid,) in conn.execute(_BACKENDS)]
        if pids:
            os.kill(dice.choice(pids), signal.SIGKILL)
        wait_until(self.answers, seconds=_SECONDS)

    def answers(self):
        try:
            self.session().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self):
        self._server.stop()


class Rabbit:
    """A broker with one virtual host."""

    _VHOST = "chaos"

    def __init__(self, node):
        self._node = node
        self.url = node.broker.create_vhost(self._VHOST)

    def start(self):
        self._node.start()

    def crash(self):
        self._node.kill()

    def stop(self):
        self._node.stop()

    def empty(self):
        """Take every queue away, and all connections with them, as on a broker made anew."""
        self._node.broker.delete_vhost(self._VHOST)
        self._node.broker.create_vhost(self._VHOST)

    def close_connections(self):
        self._node.control("close_all_connections", "chaos")

    def forget(self):
        """The same of a broker that is down: its disk is a new one."""
        self._node.forget()

    def start_anew(self):
        self._node.start()
        self._node.broker.create_vhost(self._VHOST)


class Servers:
    """Those that a run needs; ``rabbit`` is None where PostgreSQL is the transport."""

    def __init__(self, *, postgres, rabbit, redis):
        self.postgres = postgres
        self.rabbit = rabbit
        self.redis = redis

    def urls(self, login):
        """By server the URL under which it is there by now, for who has this login."""
        urls = {"postgres": self.postgres.url(login), "redis": self.redis.url}
        return urls if self.rabbit is None else {**urls, "broker": self.rabbit.url}

    def empty_redis(self):
        with Redis.from_url(self.redis.url) as redis:
            redis.flushall()


@contextmanager
def running_servers(transport):
    """Run them for the block."""
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("chaos"))
        postgres = Postgres(folder)
        stack.callback(postgres.stop)
        rabbit = None
        if transport == "rabbitmq":
            rabbit = Rabbit(stack.enter_context(running_node()))
        redis = stack.enter_context(running_redis())
        yield Servers(postgres=postgres, rabbit=rabbit, redis=redis)
