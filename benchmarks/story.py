"""Does the story of a purchase hold for ten thousand contacts, and how long does each part take?

A follow-up three days later unless they bought again, a link that is watched for a day, a second
message only without a click: the very story that the end-to-end tests tell for hundreds, over both
transports. A third clicks early, a tenth about the instant of the deadline. The counts of each
branch have to be exact, or there is no table.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.servers import running_database
from tests.e2e.installation import Installation, Workspace
from tests.e2e.story import Story
from tests.servers.rabbitmq import running_node
from tests.servers.redis import running_redis

PATIENCE_SECONDS = 600.0
SERVICES = ("api", "scanner", "scanner", "worker", "worker")


def main():
    """Tell the story over each transport and print one table."""
    options = read_options(__doc__, sizes={"contacts": (1_000, 10_000)})
    rows = [*tell("PostgreSQL", options.contacts), *tell("RabbitMQ and Redis", options.contacts)]
    report("story", f"A purchase of each of {options.contacts:,} contacts", rows, options=options)


def tell(transport, contacts):
    """Yield the lines of one transport."""
    with ExitStack() as stack:
        database = stack.enter_context(running_database())
        amqp_url = redis_url = None
        pids = [database.pid]
        if transport != "PostgreSQL":
            node = stack.enter_context(running_node())
            redis = stack.enter_context(running_redis())
            amqp_url, redis_url = node.broker.create_vhost("story"), redis.url
            pids += [node.pid, redis.pid]
        installation = Installation(
            database_url=database.url,
            amqp_url=amqp_url,
            logs=Path(stack.enter_context(TemporaryDirectory())),
            REDIS_URL=redis_url or "",
            LOG_LEVEL="WARNING",
        )
        installation.patience_seconds = PATIENCE_SECONDS
        stack.callback(installation.stop)
        pids += [installation.start(service).pid for service in SERVICES]
        installation.wait(installation.answers)
        story = Story(installation, Workspace(installation), database.conn, contacts=contacts)
        story.author()
        for part in (
            story.buy,
            story.let_three_days_pass,
            story.click_early,
            story.click_at_the_deadline,
            story.let_the_day_end,
        ):
            yield a_line(transport, part, contacts, cpu=cpu_meter(pids, own=False))
        story.assert_exact()


def a_line(transport, part, contacts, *, cpu):
    """Let a part of the story happen and return its line."""
    before, began = cpu(), time.perf_counter()
    part()
    seconds = time.perf_counter() - began
    return {
        "transport": transport,
        "part": part.__name__.replace("_", " "),
        "seconds": rounded(seconds),
        "CPU µs a contact": rounded((cpu() - before) / contacts * 1e6),
    }


if __name__ == "__main__":
    main()
