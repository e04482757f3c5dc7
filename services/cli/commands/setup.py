"""Commands that prepare an installation: ``migrate``, ``restored``, ``settings``, ``openapi``."""

import re

import click

from services.cli.output import json_anyway_option, json_option, say, say_json, say_table
from shared.db.connection import connect
from shared.db.identities import pass_over_ids
from shared.db.migrate import migrate as apply_migrations
from shared.settings import KEYS, read_settings

_LINK = re.compile(r"\[(.+?)\]\(.+?\)")


@click.command()
@json_option
def migrate(as_json: bool) -> None:
    """Bring the database up to this release. Safe to run from several places at once."""
    settings = read_settings("cli")
    applied = apply_migrations(
        settings.database_url.reveal(),
        on_applied=lambda name: None if as_json else say(f"applied {name}"),
    )
    if as_json:
        say_json({"applied": applied})
    elif not applied:
        say("the database is up to date")


@click.command(short_help="After a restore: give no id out a second time.")
@click.option(
    "--pass-over",
    "count",
    type=click.IntRange(1, 1_000_000_000),
    default=1_000_000,
    show_default=True,
    help="More ids than a table has given out since the moment of the backup.",
)
@json_option
def restored(count: int, as_json: bool) -> None:
    """Pass over the ids that were given out after the moment to which the database was restored.

    Receivers, and whoever kept an id, would take another row for the one that they know. Run it
    before anything writes into the database; run again it passes over as many again.
    """
    settings = read_settings("cli")
    with connect(settings.database_url.reveal(), application_name="duebook-cli") as conn:
        last = pass_over_ids(conn, count)
    if as_json:
        say_json({"passed_over": last})
    else:
        say(f"{len(last)} sequences passed over {count} ids")


@click.command()
@json_option
def settings(as_json: bool) -> None:
    """List the keys of the environment with their defaults. Shows no value that is set."""
    rows = [
        {
            "key": name,
            "default": key.told_default,
            "values": _plain(key.values),
            "read_by": ", ".join(key.read_by),
            "required_by": ", ".join(key.required_by),
            "means": _plain(key.means),
        }
        for name, key in KEYS.items()
    ]
    if as_json:
        say_json(rows)
        return
    for row in rows:
        row["default"] = "required" if row["required_by"] else row["default"]
    columns = {name: name.replace("_", " ") for name in rows[0] if name != "required_by"}
    say_table(rows, columns, empty="")


def _plain(text: str) -> str:
    """Return what is written for a page as a terminal shows it."""
    return _LINK.sub(r"docs/\1", text).replace("`", "")


@click.command()
@json_anyway_option
def openapi() -> None:
    """Print the API's OpenAPI document. Needs no server and no database."""
    # Here, since no other command has to wait for Flask.
    from services.api.openapi import build_document

    say_json(build_document())
