"""Commands about tenants, of the operator: ``tenants list``, ``create``."""

from dataclasses import asdict
from itertools import islice
from typing import Any

import click

from services.cli.api import admin_api_option, api_of_admin
from services.cli.arguments import checked_name
from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say_json, say_members, say_table
from services.cli.tenants import api_session, each_tenant, make_tenant
from shared.settings import read_settings

_TENANTS = "/root/tenants"


@click.group(cls=ListsByDefault)
def tenants() -> None:
    """See and make tenants. Works on the database of DATABASE_URL. Without a command: list."""


@tenants.command("list", short_help="List tenants, the oldest first.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@admin_api_option
@json_option
def list_(limit: int, api_url: str | None, as_json: bool) -> None:
    """List tenants, the oldest first."""
    if api_url is None:
        found = _in_database(limit)
    else:
        found = list(api_of_admin(api_url).items(_TENANTS, limit=limit))
    if as_json:
        say_json(found)
        return
    headings = {"id": "tenant", "name": "name", "created_at": "created at"}
    say_table(found, headings, empty="no tenants")


@tenants.command("create", short_help="Make a tenant.")
@click.argument("name", callback=checked_name)
@admin_api_option
@json_option
def create(name: str, api_url: str | None, as_json: bool) -> None:
    """Make a tenant called NAME, which no other has.

    It needs a token next: duebook token create, which makes a tenant too, with --new-tenant.
    """
    if api_url is None:
        settings = read_settings("cli")
        with api_session(settings) as conn:
            made = asdict(make_tenant(conn, settings, name=name))
    else:
        made = api_of_admin(api_url).call("POST", _TENANTS, body={"name": name})
    (say_json if as_json else say_members)(made)


def _in_database(limit: int) -> list[dict[str, Any]]:
    with api_session(read_settings("cli")) as conn:
        return [asdict(tenant) for tenant in islice(each_tenant(conn), limit)]
