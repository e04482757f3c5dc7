"""The database roles of the services, which their sessions take as they begin (migration 0006)."""

from contextlib import suppress

import psycopg
from psycopg import Connection

from shared.db.connection import connect
from shared.errors import Forbidden

API = "duebook_api"
SCANNER = "duebook_scanner"
WORKER = "duebook_worker"
ROLES = (API, SCANNER, WORKER)

# Until release 16 a member may take the role; from then on it depends on how it was granted.
_MAY_TAKE = """
SELECT rolname, session_user, pg_has_role(
    session_user,
    oid,
    CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END
)
FROM pg_roles
WHERE rolname = ANY(%(roles)s)
ORDER BY rolname
"""

# What an admin does across tenants over HTTP is a scanner's: an API's login may be given that role
# as well. Nobody else's is to have another service's rights.
_MAY_HAVE_BESIDE = {SCANNER: [API]}

_ROLES_OF_LOGIN = """
SELECT rolname FROM pg_roles WHERE rolname = ANY(%(roles)s) AND pg_has_role(oid, 'USAGE')
ORDER BY rolname
"""


def roles_of_login(conn: Connection) -> list[str]:
    """Return the services' roles whose rights a session has by itself, without taking one."""
    return [role for (role,) in conn.execute(_ROLES_OF_LOGIN, {"roles": list(ROLES)})]


def require_role(url: str, role: str, *, application_name: str) -> None:
    """Raise Forbidden unless the login of the URL may take this role, saying what to run.

    Also where the role may not use the schema. Raises ``psycopg.OperationalError`` when the
    database is not reached.
    """
    with connect(url, application_name=application_name) as conn:
        fault = role_fault(conn, role) or schema_fault(conn, role)
    if fault is not None:
        raise Forbidden(fault, code="database_role_missing")


def require_role_if_reached(url: str, role: str, *, application_name: str) -> None:
    """Do the same at the start of a service; a database that is away may come back later."""
    with suppress(psycopg.OperationalError):
        require_role(url, role, application_name=application_name)


def role_fault(conn: Connection, role: str) -> str | None:
    """Return why the login of a session may not take the role, None when it may.

    A login of no service is to be given the role, one of another service is the wrong one here.
    """
    found = conn.execute(_MAY_TAKE, {"roles": list(ROLES)}).fetchall()
    mine = [name for name, _, may_take in found if may_take]
    if role in mine:
        return None
    if role not in [name for name, _, _ in found]:
        return f"the database has no role {role}: run duebook migrate"
    login = f'"{found[0][1]}"'
    fault = f"the database's role {login} may not act as {role}"
    if mine and mine != _MAY_HAVE_BESIDE.get(role):
        return f"{fault}: it is of {', '.join(mine)}, use a login of {role}"
    return f"{fault}: let a superuser, or who made that role, run GRANT {role} TO {login}"


# A table in a schema that may not be used is not there for who looks it up by its name.
_HIDDEN_IN = """
SELECT quote_ident(min(nspname))
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relname = 'schema_migration' AND relkind = 'r'
HAVING NOT bool_or(has_schema_privilege(%(role)s::text, relnamespace, 'USAGE'))
"""


def schema_fault(conn: Connection, role: str) -> str | None:
    """Return why a role, which is there, sees no table of ours, None when it does or none is."""
    found = conn.execute(_HIDDEN_IN, {"role": role}).fetchone()
    if found is None or found[0] is None:
        return None
    return (
        f"{role} may not use the schema {found[0]}: let its owner run"
        f" GRANT USAGE ON SCHEMA {found[0]} TO {', '.join(ROLES)}"
    )
