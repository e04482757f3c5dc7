"""The product's role and database on a server of our own (``duebook dev`` and the tests)."""

from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal

_ROLE_EXISTS = "SELECT FROM pg_roles WHERE rolname = %s"
_DATABASE_EXISTS = "SELECT FROM pg_database WHERE datname = %s"


def ensure_role(admin: Connection, *, role: str, password: str) -> None:
    """Make the role, which may log in and is no superuser, or give it this password."""
    exists = admin.execute(_ROLE_EXISTS, [role]).fetchone() is not None
    statement = SQL("{} ROLE {} LOGIN PASSWORD {}").format(
        SQL("ALTER" if exists else "CREATE"), Identifier(role), Literal(password)
    )
    admin.execute(statement)


def ensure_database(admin: Connection, *, database: str, owner: str) -> None:
    """Make the database for its owner, unless it exists."""
    if admin.execute(_DATABASE_EXISTS, [database]).fetchone() is None:
        names = Identifier(database), Identifier(owner)
        admin.execute(SQL("CREATE DATABASE {} OWNER {}").format(*names))
