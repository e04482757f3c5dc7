"""The product's role and database on a server of our own (``duebook dev`` and the tests)."""

from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal

from shared.db.roles import ROLES

_ROLE_EXISTS = "SELECT FROM pg_roles WHERE rolname = %s"
_DATABASE_EXISTS = "SELECT FROM pg_database WHERE datname = %s"


def ensure_role(admin: Connection, *, role: str, password: str) -> None:
    """Make the role, which may log in and is no superuser, or give it this password.

    It may act as each of the services, whose roles are made too.
    """
    _make_login(admin, role=role, password=password)
    for service in ROLES:
        if not _exists(admin, service):
            admin.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(service)))
        admin.execute(SQL("GRANT {} TO {}").format(Identifier(service), Identifier(role)))


def ensure_login(admin: Connection, *, login: str, password: str, service: str) -> None:
    """Make a login for one service alone, or give it this password; the service's role exists."""
    _make_login(admin, role=login, password=password)
    admin.execute(SQL("GRANT {} TO {}").format(Identifier(service), Identifier(login)))


def _make_login(admin: Connection, *, role: str, password: str) -> None:
    verb = SQL("ALTER" if _exists(admin, role) else "CREATE")
    statement = SQL("{} ROLE {} LOGIN PASSWORD {}")
    admin.execute(statement.format(verb, Identifier(role), Literal(password)))


def _exists(admin: Connection, role: str) -> bool:
    return admin.execute(_ROLE_EXISTS, [role]).fetchone() is not None


def ensure_database(admin: Connection, *, database: str, owner: str) -> None:
    """Make the database for its owner, unless it exists."""
    if admin.execute(_DATABASE_EXISTS, [database]).fetchone() is None:
        names = Identifier(database), Identifier(owner)
        admin.execute(SQL("CREATE DATABASE {} OWNER {}").format(*names))
