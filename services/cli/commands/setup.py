"""Commands that prepare an installation: ``migrate``, ``openapi``."""

import click

from services.cli.output import json_anyway_option, json_option, say_json
from shared.db.migrate import migrate as apply_migrations
from shared.settings import read_settings


@click.command()
@json_option
def migrate(as_json: bool) -> None:
    """Bring the database up to this release. Safe to run from several places at once."""
    settings = read_settings("cli")
    applied = apply_migrations(
        settings.database_url.reveal(),
        on_applied=lambda name: None if as_json else click.echo(f"applied {name}"),
    )
    if as_json:
        say_json({"applied": applied})
    elif not applied:
        click.echo("the database is up to date")


@click.command()
@json_anyway_option
def openapi() -> None:
    """Print the API's OpenAPI document. Needs no server and no database."""
    # Here, since no other command has to wait for Flask.
    from services.api.openapi import build_document

    say_json(build_document())
