"""Commands about API tokens, directly on the database: ``token create``, ``list``, ``revoke``."""

import secrets
from typing import get_args
from uuid import UUID

import click

from services.cli.arguments import checked_name
from services.cli.output import json_option, say, say_json, say_table
from services.cli.tenants import api_session, find_tenant, make_tenant
from shared.db.clock import server_now
from shared.domain.tenants import ApiToken, Role
from shared.queries.tenants import list_tokens
from shared.settings import read_settings
from shared.usecases.tokens import SECRET_BYTES, issue_token, revoke_token

_PAGE = 1000

_tenant_option = click.option(
    "--tenant",
    required=True,
    metavar="NAME",
    callback=checked_name,
    help="The tenant's name or id.",
)


@click.group()
def token() -> None:
    """Issue, list and revoke API tokens. Works on the database of DATABASE_URL."""


@token.command("create", short_help="Issue a token and print it, this once.")
@click.argument("name", callback=checked_name)
@_tenant_option
@click.option("--new-tenant", is_flag=True, help="Make the tenant first.")
@click.option("--role", type=click.Choice(get_args(Role)), default="moderator", show_default=True)
@click.option("--channel", type=click.UUID, help="Good for this channel alone.")
@json_option
def create(
    name: str, tenant: str, new_tenant: bool, role: Role, channel: UUID | None, as_json: bool
) -> None:
    """Issue a token called NAME and print it: the only time that it is shown."""
    settings = read_settings("cli")
    with api_session(settings) as conn, conn.transaction():
        now = server_now(conn)
        owner = (
            make_tenant(conn, settings, name=tenant) if new_tenant else find_tenant(conn, tenant)
        )
        issued, text = issue_token(
            conn,
            tenant_id=owner.id,
            name=name,
            role=role,
            channel_id=channel,
            secret=secrets.token_bytes(SECRET_BYTES),
            now=now,
        )
    if as_json:
        say_json({**_document(issued), "token": text})
    else:
        say(text)


@token.command("list")
@_tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the tokens of a tenant, the oldest first."""
    with api_session(read_settings("cli")) as conn:
        found = list_tokens(conn, find_tenant(conn, tenant).id, limit=_PAGE)
    documents = [_document(one) for one in found]
    if as_json:
        say_json(documents)
        return
    headings = ("id", "name", "role", "channel_id", "created_at", "revoked_at")
    say_table(
        documents, {key: key.replace("_", " ") for key in headings}, empty="the tenant has no token"
    )


@token.command("revoke")
@click.argument("token_id", metavar="ID", type=click.UUID)
@_tenant_option
@json_option
def revoke(token_id: UUID, tenant: str, as_json: bool) -> None:
    """Make the token with this id void, from now on."""
    with api_session(read_settings("cli")) as conn:
        owner = find_tenant(conn, tenant)
        revoke_token(conn, tenant_id=owner.id, token_id=token_id, now=server_now(conn))
    if as_json:
        say_json({"id": token_id, "revoked": True})
    else:
        say(f"token {token_id} is void")


def _document(token: ApiToken) -> dict[str, object]:
    return {
        "id": token.id,
        "tenant_id": token.tenant_id,
        "name": token.name,
        "role": token.role,
        "channel_id": token.channel_id,
        "created_at": token.created_at,
        "revoked_at": token.revoked_at,
    }
