"""Commands about secrets: ``secrets list``, ``set``, ``delete``, and of an operator ``rotate``."""

import sys
from dataclasses import asdict
from typing import Any

import click

from services.cli.api import api_of_moderator, api_option
from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say, say_json, say_table, to_second
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.roles import WORKER, require_role
from shared.domain.secrets import is_secret_name
from shared.settings import read_settings
from shared.usecases.rotate_secrets import rotate_secrets

_APPLICATION = "duebook-secrets"
_SECRETS = "/v1/secrets"


@click.group(cls=ListsByDefault)
def secrets() -> None:
    """Keep what headers of calls name and nobody is shown. Without a command: list."""


@secrets.command("list", short_help="List secrets by name, without their values.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True)
@api_option
@json_option
def list_(limit: int, api_url: str, as_json: bool) -> None:
    """List secrets by name, without their values."""
    found = list(api_of_moderator(api_url).items(_SECRETS, limit=limit))
    if as_json:
        say_json(found)
        return
    say_table(
        [_row(secret) for secret in found],
        {"name": "secret", "created_at": "created at", "updated_at": "set at"},
        empty="no secrets",
    )


@secrets.command("set", short_help="Set a secret; its value is asked for.")
@click.argument("name", callback=lambda _ctx, _parameter, name: _checked(name))
@api_option
@json_option
def set_(name: str, api_url: str, as_json: bool) -> None:
    """Set the secret NAME: its value is asked for, or read from the standard input.

    Calls from now on have the new value. A line end behind it does not count.
    """
    api = api_of_moderator(api_url)
    made = api.call("PUT", f"{_SECRETS}/{name}", body={"value": _read_value()})
    if as_json:
        say_json(made)
    else:
        say(f"secret {name} is set")


@secrets.command("delete", short_help="Delete a secret that no definition names.")
@click.argument("name", callback=lambda _ctx, _parameter, name: _checked(name))
@api_option
@json_option
def delete(name: str, api_url: str, as_json: bool) -> None:
    """Delete the secret NAME, which no trigger, rule or workflow may name any more."""
    api_of_moderator(api_url).call("DELETE", f"{_SECRETS}/{name}")
    if as_json:
        say_json({"name": name, "deleted": True})
    else:
        say(f"secret {name} is deleted")


@secrets.command("rotate", short_help="Encrypt all under the first of ENCRYPTION_KEYS.")
@json_option
def rotate(as_json: bool) -> None:
    """Encrypt every stored secret under the first key of ENCRYPTION_KEYS.

    Works on the database of DATABASE_URL, as a worker, beside everything that runs; what is
    encrypted so already is passed over. Exit code 1 when some can be decrypted with no key: they
    stay as they are.
    """
    settings = read_settings("cli")
    url = settings.database_url.reveal()
    require_role(url, WORKER, application_name=_APPLICATION)
    with connect(url, application_name=_APPLICATION, role=WORKER) as conn:
        rotated = rotate_secrets(conn, settings.sealer(), now=server_now(conn))
    if as_json:
        say_json(asdict(rotated))
    else:
        say(f"{rotated.encrypted} encrypted under the first key")
        if rotated.unreadable:
            say(f"{rotated.unreadable} can be decrypted with no key that is here", err=True)
    if rotated.unreadable:
        raise SystemExit(1)


def _checked(name: str) -> str:
    if not is_secret_name(name):
        raise click.BadParameter("a name has up to 100 letters, digits, '_', '.' and '-'")
    return name


def _read_value() -> str:
    """Return a value that stands in no list of processes and no history of a shell."""
    if sys.stdin.isatty():
        return str(click.prompt("value", hide_input=True, confirmation_prompt=True))
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _row(secret: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": secret["name"],
        "created_at": to_second(secret["created_at"]),
        "updated_at": to_second(secret["updated_at"]),
    }
