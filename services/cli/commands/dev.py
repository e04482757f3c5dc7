"""``duebook dev``: everything on this machine."""

from pathlib import Path

import click

from services.cli.supervisor import Ended
from shared.lifecycle import stop_on_signals


@click.command(short_help="Run everything here, with a sample workspace.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    envvar="API_PORT",
    default=8000,
    show_default=True,
    show_envvar=True,
    help="Port of the API, or the first free one above it.",
)
def dev(port: int) -> None:
    """Run database, API, scanner and worker here, with a sample workspace, until Ctrl-C.

    Data stays in .run/ of the present folder. DATABASE_URL and AMQP_URL are used where set;
    without them an embedded PostgreSQL is database and transport.
    """
    stop = stop_on_signals()
    # Here, since no other command has to wait for what the sample workspace is made with.
    from services.cli.dev import run_dev

    try:
        run_dev(Path.cwd(), stop, port=port)
    except Ended as error:
        click.echo(f"duebook dev: {error.message}; the rest was stopped", err=True)
        raise SystemExit(error.status) from error
