"""Commands about dead letters of the broker: ``dead-letters list``, ``requeue``."""

from dataclasses import asdict

import click

from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say, say_json, say_table
from shared.errors import AppError
from shared.messaging.topology import CONSUMED_QUEUES

_queue_argument = click.argument(
    "queue", type=click.Choice(CONSUMED_QUEUES), metavar="[QUEUE]", required=False
)
_OF_QUEUES = f"Queues: {', '.join(CONSUMED_QUEUES)}."


@click.group("dead-letters", cls=ListsByDefault)
def dead_letters() -> None:
    """Look into the dead-letter queues, send letters again. Without a command: list."""


@dead_letters.command("list", short_help="Show the oldest dead letters.", epilog=_OF_QUEUES)
@_queue_argument
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def list_(queue: str | None, limit: int, as_json: bool) -> None:
    """Show the oldest dead letters of QUEUE, or of all; they stay where they are."""
    # Here, as below, since no other command has to wait for the broker's driver.
    from shared.messaging.dead_letters import count_dead_letters, list_dead_letters

    url = _broker_url()
    counts = count_dead_letters(url)
    letters = [
        asdict(letter)
        for name in _queues(queue)
        for letter in list_dead_letters(url, name, limit=limit)
    ]
    if as_json:
        say_json({"counts": counts, "letters": letters})
        return
    for name in _queues(queue):
        say(f"{name}: {counts[name]} dead letters")
    say_table(
        letters,
        {
            "queue": "queue",
            "reason": "reason",
            "died_at": "died at",
            "fault": "fault",
            "body": "body",
        },
        empty="",
    )


@dead_letters.command(
    "requeue", short_help="Send dead letters again, the oldest first.", epilog=_OF_QUEUES
)
@_queue_argument
@click.option("--limit", type=click.IntRange(1), help="At most so many of each queue.")
@json_option
def requeue(queue: str | None, limit: int | None, as_json: bool) -> None:
    """Send the dead letters of QUEUE, or of all, again: the oldest first.

    One that nobody could read dies again. One that points to work already done is harmless.
    """
    from shared.messaging.dead_letters import send_again

    url = _broker_url()
    moved = {name: send_again(url, name, limit=limit) for name in _queues(queue)}
    if as_json:
        say_json(moved)
        return
    for name, count in moved.items():
        say(f"{name}: {count} sent again")


def _queues(queue: str | None) -> tuple[str, ...]:
    return CONSUMED_QUEUES if queue is None else (queue,)


def _broker_url() -> str:
    from shared.settings import read_settings

    settings = read_settings("cli")
    if settings.amqp_url is None:
        raise AppError("AMQP_URL is not set: without a broker there are no dead letters")
    return settings.amqp_url.reveal()
