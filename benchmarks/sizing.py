"""What does an installation have to have: bytes for each row, CPU for each step, memory, sessions?

API, scanner and worker over PostgreSQL, RabbitMQ and Redis; each kind of work is done by the
product itself, some thousand times. CPU time is told for each process. Bytes are those that stay
when all is done and the room of dead rows was used again, and what the log (WAL) was given. Memory
is that of a process with what it started: idle, after all this work, and with larger settings.
"""

import time
from collections import Counter
from contextlib import ExitStack

from benchmarks.measure.installation import Installation
from benchmarks.measure.processes import tree_mib
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.servers import running_database
from benchmarks.measure.work import Work
from shared.db.clock import server_now
from shared.messaging.topology import FIRE
from shared.queries.workers import hold_liveness, register_worker
from shared.tracking.rates import LocalRates, Rate
from shared.tracking.redis_line import open_redis
from shared.tracking.redis_rates import RedisRates
from tests.servers.rabbitmq import running_node
from tests.servers.redis import running_redis

# The first turn does not count: it makes the pages and the plans that the others find.
TURNS = 4
CALLERS = 16
IDLE_SECONDS = 10.0
MESSAGES = 500
NAMES = 200
PROCESSES = ("API", "scanner", "worker", "PostgreSQL", "broker")


def main():
    """Do everything that costs and print one table."""
    options = read_options(__doc__, sizes={"count": (150, 3000)})
    with ExitStack() as stack:
        database = stack.enter_context(running_database())
        node = stack.enter_context(running_node())
        redis = stack.enter_context(running_redis())
        installation = Installation(database, node=node, redis=redis)
        stack.callback(installation.disk.close)
        with installation.running():
            rows = [idle(installation), *memory(installation, "idle")]
            work = Work(installation, options.count)
            for step in work.steps():
                rows += taken(installation, step)
            work.burst(CALLERS)
            rows += memory(installation, "after work")
        rows += [*of_settings(installation), *of_broker(installation), *of_redis(redis)]
    title = "Bytes, and µs of CPU in each process, for each; MiB and sessions of a process"
    report("sizing", title, rows, options=options)


def a_line(what, *, of=None, size=None, log=None, cpu=None, mib=None, sessions=None):
    """Return a line of the table."""
    cpu = cpu or {}
    return {
        "for each": what,
        "of": of,
        "table": None if size is None else rounded(size[0]),
        "indexes": None if size is None else rounded(size[1]),
        "WAL": None if log is None else rounded(log),
        **{name: rounded(cpu[name]) if name in cpu else None for name in PROCESSES},
        "MiB": None if mib is None else rounded(mib),
        "sessions": sessions,
    }


def taken(installation, step):
    """Take the turns of a step and return what each of its doings took, with its tables'."""
    step.turn()
    before = installation.disk.sizes(step.tables)
    log, cpu = 0, Counter()
    for _ in range(TURNS - 1):
        log_before, cpu_before = installation.disk.written(), installation.cpu()
        step.turn()
        cpu.update({name: at - cpu_before[name] for name, at in installation.cpu().items()})
        log += installation.disk.written() - log_before
        after = installation.disk.sizes(step.tables)
    count = step.count * (TURNS - 1)
    kept = {name: after[name] - before[name] for name in step.tables}
    each = [(f"- {name}", size.table / count, size.indexes / count) for name, size in kept.items()]
    used = {name: seconds / count * 1e6 for name, seconds in cpu.items()}
    rows = [a_line(step.name, of=count, log=log / count, cpu=used)]
    return rows + [a_line(name, size=size) for name, *size in each]


def idle(installation):
    """Return what a second costs in which nothing is due."""
    time.sleep(IDLE_SECONDS / 2)
    before = installation.cpu()
    time.sleep(IDLE_SECONDS)
    after = installation.cpu()
    cpu = {name: (after[name] - before[name]) / IDLE_SECONDS * 1e6 for name in after}
    return a_line("second without work", of=int(IDLE_SECONDS), cpu=cpu)


def memory(installation, when):
    """Return the memory of each process and how many sessions it holds."""
    return [
        a_line(f"{name}, {when}", mib=mib, sessions=sessions)
        for name, mib, sessions in installation.memory()
    ]


def of_settings(installation):
    """Return memory and sessions of processes with a larger pool and more threads, all in use."""
    with installation.running(answer_seconds=0.05, DB_POOL_SIZE="16", WORKER_THREADS="64"):
        work = Work(installation, 400)
        work.run_by_write("webhook", work.webhook()).turn()
        work.burst(4 * CALLERS)
        return memory(installation, "pool 16, threads 64")


def of_broker(installation):
    """Return what messages take in the broker while nobody consumes them."""
    without = tree_mib(installation.node.pid)
    with installation.running(worker=False):
        conn = installation.conn
        # As many references as workers take soon: one that lives, and takes none.
        worker_id = register_worker(
            conn, host="-", release="-", roles=["-"], threads=MESSAGES * 10, now=server_now(conn)
        )
        assert hold_liveness(conn, worker_id)
        Work(installation, 0).leave(MESSAGES * 20)
        path = f"/api/queues/{installation.vhost}/{FIRE}"
        installation.wait(lambda: queue(installation, path)["messages"] >= MESSAGES)
        found, grown = queue(installation, path), tree_mib(installation.node.pid) - without
    each = found["message_bytes"] / found["messages"]
    return [
        a_line("broker, no message", mib=without),
        a_line(f"broker, {found['messages']:,} messages of {each:,.0f} bytes more", mib=grown),
    ]


def queue(installation, path):
    """Return what the broker knows of a queue by now; it looks every five seconds."""
    return {"messages": 0, **installation.node.broker.call("GET", path)}


def of_redis(redis):
    """Yield the bytes of a click that is remembered, and of a tenant whose requests are counted."""
    with open_redis(redis.url) as client:
        rates = RedisRates(client, LocalRates(), prefix="duebook")
        for number in range(NAMES):
            rates.take(f"tenant:{number:036}", Rate(per_minute=6, burst=10))
        for what, keys in (("click in Redis", "*:click:*"), ("rate in Redis", "*:rate:*")):
            sizes = [client.memory_usage(key) for key in client.scan_iter(keys)]
            yield a_line(what, of=len(sizes), size=(sum(sizes) / len(sizes), 0))


if __name__ == "__main__":
    main()
