"""An installation with one process of each kind, over PostgreSQL, RabbitMQ and Redis."""

from collections import Counter
from contextlib import ExitStack

from benchmarks.measure.disk import Disk
from benchmarks.measure.processes import own_mib, tree_cpu_seconds, tree_mib
from benchmarks.measure.services import (
    running_api,
    running_receiver,
    running_scanner,
    running_worker,
)
from shared.lifecycle import wait_until

_PATIENCE_SECONDS = 600.0

_UNFINISHED = """
SELECT EXISTS (SELECT FROM due_value WHERE fire_at <= clock_timestamp())
    OR EXISTS (SELECT FROM trigger_run WHERE status IN ('pending', 'running'))
    OR EXISTS (
        SELECT
        FROM scheduled_action
        WHERE status = 'processing' OR (status = 'pending' AND execute_at <= clock_timestamp())
    )
"""
_SESSIONS = """
SELECT application_name, pid
FROM pg_stat_activity
WHERE application_name LIKE 'duebook-%'
"""


class Installation:
    """The processes, what they use, and a client that may do everything in one tenant."""

    def __init__(self, database, *, node, redis):
        self.conn = database.conn
        self.disk = Disk(database)
        self.node = node
        self.vhost = "sizing"
        self.api = None
        self.receiver_port = None
        self._database = database
        self._amqp_url = node.broker.create_vhost(self.vhost)
        self._redis_url = redis.url
        self._children = {}

    def running(self, *, worker=True, answer_seconds=0.0, **settings):
        """Run the processes for the block, and a receiver of webhooks."""
        with ExitStack() as stack:
            port = stack.enter_context(running_receiver(answer_seconds))
            environment = {
                "DATABASE_URL": self._database.url,
                "AMQP_URL": self._amqp_url,
                "REDIS_URL": self._redis_url,
                "RATE_LIMIT": "10000000",
                # One round, at the start: what comes due later is the due pass's alone.
                "ROUND_SECONDS": "3600",
                "ALLOWED_NETWORKS": "127.0.0.0/8",
                "ALLOWED_PORTS": str(port),
                **settings,
            }
            child, self.api = stack.enter_context(running_api(self._database, environment))
            self._children = {
                "API": child,
                "scanner": stack.enter_context(running_scanner(environment)),
            }
            if worker:
                self._children["worker"] = stack.enter_context(running_worker(environment))
            self.receiver_port = port
            return stack.pop_all()

    def cpu(self):
        """Return the CPU seconds by now of each kind of process."""
        pids = {name: child.pid for name, child in self._children.items()}
        pids |= {"PostgreSQL": self._database.pid, "broker": self.node.pid}
        return {name: tree_cpu_seconds(pid) for name, pid in pids.items()}

    def memory(self):
        """Return for each process its memory in MiB and how many sessions it has; last a session's.

        A session's is the mean of what its process in the server shares with nobody.
        """
        owners = [(name.split("-")[1], pid) for name, pid in self.conn.execute(_SESSIONS)]
        held = Counter(owner for owner, _ in owners)
        for name, child in self._children.items():
            yield name, tree_mib(child.pid), held[name.lower()]
        yield "session of PostgreSQL", sum(own_mib(pid) for _, pid in owners) / len(owners), None

    def wait(self, condition):
        """Wait until the condition holds."""
        if not wait_until(condition, seconds=_PATIENCE_SECONDS):
            raise RuntimeError("the system does not come to an end")

    def wait_for_all(self):
        """Wait until nothing is due or held."""
        self.wait(lambda: self.conn.execute(_UNFINISHED).fetchone() == (False,))
