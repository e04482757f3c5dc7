"""What does a fired action cost from due to receipt, how soon does it start, how fast do they go?

A scanner and two workers as processes, over RabbitMQ and over PostgreSQL alone. Thousands of
records of one table come due at once, and thousands of scheduled actions, each with a contact; the
action does nothing, and the benchmark alone knows it. CPU time is that of every process: services,
database, broker. On an idle system they come due one by one. And webhooks go to a receiver that
answers after 50 ms: threads bound them, not CPU.
"""

import statistics
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from benchmarks.measure.processes import cpu_meter, memory_mib
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import (
    add_actions,
    add_due_records,
    add_table,
    catch_up,
    date_trigger,
)
from benchmarks.measure.servers import running_database
from benchmarks.measure.services import running_receiver, running_scanner, running_worker
from shared.db.clock import server_now
from shared.lifecycle import wait_until
from tests.servers.rabbitmq import running_node

WORKERS = 2
NAMES = ("scanner", "workers", "database", "broker")
ANSWER_SECONDS = 0.05
THREADS = (16, 64)
IDLE_SECONDS = 10.0
STEP_SECONDS = 0.25
PATIENCE_SECONDS = 600.0

UNFINISHED = """
SELECT EXISTS (SELECT FROM due_value WHERE fire_at < 'infinity')
    OR EXISTS (SELECT FROM trigger_run WHERE status = 'pending')
    OR EXISTS (SELECT FROM trigger_run WHERE status = 'running')
    OR EXISTS (SELECT FROM scheduled_action WHERE status = 'pending')
    OR EXISTS (SELECT FROM scheduled_action WHERE status = 'processing')
"""
RUN_OUTCOMES = "SELECT status, count(*) FROM trigger_run WHERE table_id = %s GROUP BY status"
ACTION_OUTCOMES = """
SELECT status, count(*) FROM scheduled_action WHERE tenant_id = %s GROUP BY status
"""
# A receipt tells as a floating-point number when its action began. A run's cell is long over: when
# its record came due is what the due index said.
RUN_STARTS = """
SELECT record_id, (action_results -> 0 ->> 'at')::float8
FROM trigger_run
WHERE table_id = %s
"""
ACTION_DELAYS = """
SELECT (action_results -> 0 ->> 'at')::float8 - extract(epoch FROM execute_at)::float8
FROM scheduled_action
WHERE tenant_id = %s
"""
STATEMENTS = """
SELECT calls, round(total_exec_time::numeric), rows, regexp_replace(query, '\\s+', ' ', 'g')
FROM pg_stat_statements
ORDER BY total_exec_time DESC
LIMIT 25
"""


def main():
    """Measure both transports one after the other and print one table."""
    options = read_options(
        __doc__,
        sizes={"actions": (10_000, 50_000), "single": (100, 400), "calls": (2_000, 10_000)},
        flags={"profile": "print the statements that took the most time"},
    )
    rows = []
    with running_node() as node:
        for name, url in (("RabbitMQ", node.broker.create_vhost("bench")), ("PostgreSQL", None)):
            with running_database(count_statements=options.profile) as database:
                system = System(database, broker=node if url else None, amqp_url=url)
                rows += [{"transport": name, **row} for row in measure(system, options)]
                if options.profile:
                    print_statements(database)
    report("end_to_end", "Fired actions end to end: scanner, two workers", rows, options=options)


def measure(system, options):
    """Yield the lines of one transport."""
    with system.running():
        yield from system.idle()
        for flood in (system.runs_due, system.actions_due):
            for action in ("noop_external", "noop"):
                flood(action, options.actions)  # warms up
                yield flood(action, options.actions)
        yield from system.memory("after these")
        yield system.runs_one_by_one(options.single)
        yield system.actions_one_by_one(options.single)
    with running_receiver(ANSWER_SECONDS) as port:
        for threads in THREADS:
            with system.running(workers=1, threads=threads, port=port):
                yield system.webhooks(options.calls, threads=threads, port=port)


def a_line(question, answer, *, work=None):
    """Return a line of the table."""
    each = {} if work is None else work.cpu_us_by_name()
    return {
        "question": question,
        "answer": answer,
        "per second": None if work is None else round(work.count / work.seconds),
        "CPU µs each": rounded(sum(each.values())) if each else None,
        **{name: rounded(each[name]) if each else None for name in NAMES},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What it took to work something off, with the CPU seconds of each kind of process."""

    count: int
    seconds: float
    cpu_seconds: dict[str, float]

    def cpu_us_by_name(self):
        """Return the CPU time for each, in microseconds."""
        each = {name: seconds / self.count * 1e6 for name, seconds in self.cpu_seconds.items()}
        return {name: each.get(name, 0.0) for name in NAMES}


class System:
    """An installation: database, perhaps a broker, and services that start and stop."""

    def __init__(self, database, *, broker, amqp_url):
        self.database = database
        self.conn = database.conn
        self.broker = broker
        self.amqp_url = amqp_url
        self.scanner = None
        self.workers = []

    @contextmanager
    def running(self, *, workers=WORKERS, threads=16, port=0):
        """Run scanner and workers for the block."""
        environment = {
            "DATABASE_URL": self.database.url,
            "AMQP_URL": self.amqp_url or "",
            # One round, at the start: what comes due later is the due pass's alone.
            "ROUND_SECONDS": "3600",
            "WORKER_THREADS": str(threads),
            "ALLOWED_NETWORKS": "127.0.0.0/8",
            "ALLOWED_PORTS": str(port or 80),
        }
        with ExitStack() as stack:
            self.scanner = stack.enter_context(running_scanner(environment))
            self.workers = [
                stack.enter_context(running_worker(environment)) for _ in range(workers)
            ]
            yield

    def cpu(self):
        """Return the CPU seconds by now of each kind of process, without this one."""
        pids = {
            "scanner": [self.scanner.pid],
            "workers": [child.pid for child in self.workers],
            "database": [self.database.pid],
            "broker": [self.broker.pid] if self.broker else [],
        }
        return {name: cpu_meter(own, own=False)() for name, own in pids.items()}

    def idle(self):
        """Yield what the system costs while nothing is due."""
        time.sleep(IDLE_SECONDS / 2)
        before = sum(self.cpu().values())
        time.sleep(IDLE_SECONDS)
        used = sum(self.cpu().values()) - before
        yield a_line("idle: ms of CPU a second", rounded(used / IDLE_SECONDS * 1000))
        yield from self.memory("idle")

    def memory(self, when):
        """Yield what a process of each kind holds."""
        for name, child in (("scanner", self.scanner), ("worker", self.workers[0])):
            yield a_line(f"{when}: MiB of the {name}", rounded(memory_mib(child.pid)))

    def a_table(self, action):
        """Make a table whose date trigger has that action, its walk through with no row."""
        table = add_table(self.conn, triggers=[date_trigger(actions=[action])])
        catch_up(self.conn)
        return table

    def runs_due(self, action, count):
        """Let many records come due at once and wait until every run has its receipt."""
        work = self._fire(self.a_table({"type": action}), count)
        return a_line(f"{count:,} records due at once, {action}", _seconds(work), work=work)

    def actions_due(self, action, count):
        """Let many scheduled actions come due at once and wait until each has its receipt."""

        def begin():
            return add_actions(self.conn, action, count, at=server_now(self.conn))

        tenant_id, work = self._work_off(begin, count)
        self._assert_done(ACTION_OUTCOMES, tenant_id, count)
        return a_line(
            f"{count:,} scheduled actions due at once, {action}", _seconds(work), work=work
        )

    def webhooks(self, count, *, threads, port):
        """Let as many webhooks go out as there are records, from one worker."""
        url = f"http://127.0.0.1:{port}/hook"
        work = self._fire(self.a_table({"type": "webhook", "url": url}), count)
        bound = threads / ANSWER_SECONDS
        return a_line(
            f"webhooks answered after 50 ms, {threads} threads",
            f"{count / work.seconds / bound:.0%} of {bound:.0f}/s",
            work=work,
        )

    def _fire(self, table, count):
        def begin():
            add_due_records(self.conn, table, count, at=server_now(self.conn))

        _, work = self._work_off(begin, count)
        self._assert_done(RUN_OUTCOMES, table.id, count)
        return work

    def _work_off(self, begin, count):
        """Return what ``begin`` does, and what it took from its commit to the last receipt."""
        begun = begin()
        cpu_before, before = self.cpu(), time.perf_counter()
        if not wait_until(self._is_finished, seconds=PATIENCE_SECONDS, every_seconds=0.1):
            raise RuntimeError("the system does not come to an end")
        seconds, cpu = time.perf_counter() - before, self.cpu()
        used = {name: cpu[name] - cpu_before[name] for name in cpu}
        return begun, Work(count=count, seconds=seconds, cpu_seconds=used)

    def _assert_done(self, outcomes, of, count):
        found = dict(self.conn.execute(outcomes, [of]).fetchall())
        assert found == {"done": count}, found

    def _is_finished(self):
        return self.conn.execute(UNFINISHED).fetchone() == (False,)

    def runs_one_by_one(self, count):
        """Tell how long after its due instant a record's action starts on an idle system."""
        table = self.a_table({"type": "noop"})
        due_at = self._one_by_one(
            lambda at: add_due_records(self.conn, table, count, at=at, step_seconds=STEP_SECONDS),
            count,
        )
        starts = self.conn.execute(RUN_STARTS, [table.id])
        late = [at - due_at[record_id].timestamp() for record_id, at in starts]
        return _delays("records", late, count)

    def actions_one_by_one(self, count):
        """Tell the same of scheduled actions."""
        tenant_id = self._one_by_one(
            lambda at: add_actions(self.conn, "noop", count, at=at, step_seconds=STEP_SECONDS),
            count,
        )
        late = [seconds for (seconds,) in self.conn.execute(ACTION_DELAYS, [tenant_id])]
        return _delays("scheduled actions", late, count)

    def _one_by_one(self, begin, count):
        begun = begin(server_now(self.conn) + timedelta(seconds=3))
        time.sleep(3 + count * STEP_SECONDS)
        wait_until(self._is_finished, seconds=PATIENCE_SECONDS, every_seconds=0.5)
        return begun


def _delays(of, late, count):
    """Return the line of so many delays in seconds."""
    assert len(late) == count
    in_order = sorted(seconds * 1000 for seconds in late)
    p50, p99 = statistics.median(in_order), in_order[int(count * 0.99)]
    return a_line(f"idle: {of}, due to start, p50 / p99", f"{p50:.0f} / {p99:.0f} ms")


def _seconds(work):
    return f"{work.seconds:.1f} s"


def print_statements(database):
    """Print what the database did, by the time it took."""
    with database.admin() as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for calls, milliseconds, rows, query in admin.execute(STATEMENTS):
            print(f"{milliseconds:>8} ms {calls:>7} calls {rows:>8} rows  {query[:150]}")


if __name__ == "__main__":
    main()
