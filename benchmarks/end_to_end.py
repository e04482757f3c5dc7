"""What does a fired action cost from due to receipt, how soon does it start, how fast do they go?

A scanner and two workers as processes, over RabbitMQ and over PostgreSQL alone. Thousands of
records of one table come due at once; the action does nothing, and the benchmark alone knows it.
CPU time is that of every process: services, database, broker. On an idle system records come due
one by one. And webhooks go to a receiver that answers after 50 ms: threads bound them, not CPU.
"""

import statistics
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from benchmarks.measure.processes import cpu_meter, memory_mib
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_due_records, add_table, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from benchmarks.measure.services import running_receiver, running_scanner, running_worker
from shared.db.clock import server_now
from shared.lifecycle import wait_until
from tests.servers.rabbitmq import running_node

WORKERS = 2
ANSWER_SECONDS = 0.05
THREADS = (16, 64)
IDLE_SECONDS = 10.0
STEP_SECONDS = 0.25
PATIENCE_SECONDS = 600.0

UNFINISHED = """
SELECT EXISTS (SELECT FROM due_value WHERE fire_at < 'infinity')
    OR EXISTS (SELECT FROM trigger_run WHERE status = 'pending')
    OR EXISTS (SELECT FROM trigger_run WHERE status = 'running')
"""
OUTCOMES = "SELECT status, count(*) FROM trigger_run WHERE table_id = %s GROUP BY status"
STARTS = """
SELECT record_id, action_results -> 0 -> 'at'
FROM trigger_run
WHERE table_id = %s
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
        for action in ("noop_external", "noop"):
            for _ in range(2):  # the first warms up
                line = system.flood(action, options.actions)
            yield line
        yield from system.one_by_one(options.single)
    with running_receiver(ANSWER_SECONDS) as port:
        for threads in THREADS:
            with system.running(workers=1, threads=threads, port=port):
                yield system.webhooks(options.calls, threads=threads, port=port)


def a_line(question, answer, *, per_second=None, cpu_us=None):
    """Return a line of the table."""
    return {"question": question, "answer": answer, "per second": per_second, "CPU µs each": cpu_us}


class System:
    """An installation: database, perhaps a broker, and services that start and stop."""

    def __init__(self, database, *, broker, amqp_url):
        self.database = database
        self.conn = database.conn
        self.broker = broker
        self.amqp_url = amqp_url
        self.children = {}

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
            self.children = {"scanner": stack.enter_context(running_scanner(environment))}
            for number in range(1, workers + 1):
                child = stack.enter_context(running_worker(environment))
                self.children[f"worker {number}"] = child
            yield

    def cpu(self):
        """Return a meter of the CPU seconds of all that works, without this process."""
        pids = [self.database.pid, *(child.pid for child in self.children.values())]
        return cpu_meter([*pids, self.broker.pid] if self.broker else pids, own=False)

    def idle(self):
        """Yield what the system costs while nothing is due."""
        time.sleep(IDLE_SECONDS / 2)
        cpu = self.cpu()
        before = cpu()
        time.sleep(IDLE_SECONDS)
        yield a_line("idle: ms of CPU a second", rounded((cpu() - before) / IDLE_SECONDS * 1000))
        for name in ("scanner", "worker 1"):
            memory = memory_mib(self.children[name].pid)
            yield a_line(f"idle: MiB of the {name.split()[0]}", rounded(memory))

    def a_table(self, action):
        """Make a table whose date trigger has that action, its walk through with no row."""
        table = add_table(self.conn, triggers=[date_trigger(actions=[action])])
        catch_up(self.conn)
        return table

    def flood(self, action, count):
        """Let many records come due at once and wait until every run has its receipt."""
        table = self.a_table({"type": action})
        seconds, cpu_seconds = self._work_off(table, count)
        return a_line(
            f"{count:,} records due at once, {action}",
            f"{seconds:.1f} s",
            per_second=round(count / seconds),
            cpu_us=rounded(cpu_seconds / count * 1e6),
        )

    def webhooks(self, count, *, threads, port):
        """Let as many webhooks go out as there are records, from one worker."""
        url = f"http://127.0.0.1:{port}/hook"
        seconds, cpu_seconds = self._work_off(self.a_table({"type": "webhook", "url": url}), count)
        bound = threads / ANSWER_SECONDS
        return a_line(
            f"webhooks answered after 50 ms, {threads} threads",
            f"{count / seconds / bound:.0%} of {bound:.0f}/s",
            per_second=round(count / seconds),
            cpu_us=rounded(cpu_seconds / count * 1e6),
        )

    def _work_off(self, table, count):
        """Return seconds and CPU seconds from the commit of due records to the last receipt."""
        cpu = self.cpu()
        add_due_records(self.conn, table, count, at=server_now(self.conn))
        cpu_before, before = cpu(), time.perf_counter()
        if not wait_until(self._is_finished, seconds=PATIENCE_SECONDS, every_seconds=0.1):
            raise RuntimeError("the system does not come to an end")
        seconds, cpu_seconds = time.perf_counter() - before, cpu() - cpu_before
        outcomes = dict(self.conn.execute(OUTCOMES, [table.id]).fetchall())
        assert outcomes == {"done": count}, outcomes
        return seconds, cpu_seconds

    def _is_finished(self):
        return self.conn.execute(UNFINISHED).fetchone() == (False,)

    def one_by_one(self, count):
        """Yield how long after its due instant a record's action starts on an idle system."""
        table = self.a_table({"type": "noop"})
        at = server_now(self.conn) + timedelta(seconds=3)
        due = add_due_records(self.conn, table, count, at=at, step_seconds=STEP_SECONDS)
        time.sleep(3 + count * STEP_SECONDS)
        wait_until(self._is_finished, seconds=PATIENCE_SECONDS, every_seconds=0.5)
        late = sorted(
            (began - due[record_id].timestamp()) * 1000
            for record_id, began in self.conn.execute(STARTS, [table.id])
        )
        assert len(late) == count
        p50, p99 = statistics.median(late), late[int(count * 0.99)]
        yield a_line("idle: due to start, p50 / p99", f"{p50:.0f} / {p99:.0f} ms")


def print_statements(database):
    """Print what the database did, by the time it took."""
    with database.admin() as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for calls, milliseconds, rows, query in admin.execute(STATEMENTS):
            print(f"{milliseconds:>8} ms {calls:>7} calls {rows:>8} rows  {query[:150]}")


if __name__ == "__main__":
    main()
