"""Where a command works: at an API, or on a database without one."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from shared.errors import AppError

if TYPE_CHECKING:
    from services.cli.local_api import LocalApi

_DATABASE, _TENANT = "duebook.database", "duebook.tenant"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlace:
    """A database, that of DATABASE_URL for None, and a tenant in it, the only one for None."""

    database_url: str | None
    tenant: str | None


def place_options(command: _Command) -> _Command:
    """Give a command ``--api``, its argument ``api_url``, and what takes its place."""
    options = (
        click.option(
            "--api",
            "api_url",
            metavar="URL",
            envvar="DUEBOOK_API",
            default="http://127.0.0.1:8000",
            show_default=True,
            show_envvar=True,
            help="Address of the API.",
        ),
        click.option(
            "--database",
            metavar="URL",
            expose_value=False,
            callback=_keeper(_DATABASE),
            help="Work on this database, without an API; a single tenant needs no --tenant.",
        ),
        click.option(
            "--tenant",
            metavar="NAME",
            envvar="DUEBOOK_TENANT",
            show_envvar=True,
            expose_value=False,
            callback=_keeper(_TENANT),
            help="Work on a database (DATABASE_URL) for this tenant, by name or id.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _keeper(key: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def keep(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        ctx.meta[key] = value
        return value

    return keep


def local_place() -> LocalPlace | None:
    """Return the database on which the present command works, None when it is to ask an API."""
    ctx = click.get_current_context()
    database_url, tenant = ctx.meta.get(_DATABASE), ctx.meta.get(_TENANT)
    if not database_url and not tenant:
        return None
    if ctx.get_parameter_source("api_url") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--api goes without --database and --tenant")
    return LocalPlace(database_url=database_url or None, tenant=tenant or None)


def open_place(place: LocalPlace) -> "LocalApi":
    """Return the application on a database, for as long as the present command runs.

    Raises NotFound or AppError for a tenant that is not there, Forbidden for a login that may not
    act as the API, ``psycopg.OperationalError`` when the database is not reached.
    """
    # Here, since no command that asks an API has to wait for Flask, settings and drivers.
    from services.cli.local_api import LocalApi, open_sessions
    from services.cli.tenants import api_session, find_tenant, the_only_tenant
    from shared.db.migrate import pending
    from shared.observability.logs import configure_logging
    from shared.settings import read_settings

    if place.database_url is not None:
        os.environ["DATABASE_URL"] = place.database_url
    settings = read_settings("cli")
    configure_logging(service="cli", log_format="console", level="ERROR")
    with api_session(settings) as conn:
        if missing := pending(conn):
            message = f"the database lacks {', '.join(missing)}: run duebook migrate"
            raise AppError(message, code="migrations_missing")
        tenant = the_only_tenant(conn) if place.tenant is None else find_tenant(conn, place.tenant)
    pool = open_sessions(settings)
    click.get_current_context().call_on_close(pool.close)
    return LocalApi(settings, pool, tenant_id=tenant.id)
