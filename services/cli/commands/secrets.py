"""Commands about stored secrets: ``secrets rotate``."""

from dataclasses import asdict

import click

from services.cli.output import json_option, say_json
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.roles import WORKER, require_role
from shared.settings import read_settings
from shared.usecases.rotate_secrets import rotate_secrets

_NAME = "duebook-secrets"


@click.group()
def secrets() -> None:
    """Look after stored secrets."""


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
    require_role(url, WORKER, application_name=_NAME)
    with connect(url, application_name=_NAME, role=WORKER) as conn:
        rotated = rotate_secrets(conn, settings.sealer(), now=server_now(conn))
    if as_json:
        say_json(asdict(rotated))
    else:
        click.echo(f"{rotated.encrypted} encrypted under the first key")
        if rotated.unreadable:
            click.echo(f"{rotated.unreadable} can be decrypted with no key that is here", err=True)
    if rotated.unreadable:
        raise SystemExit(1)
