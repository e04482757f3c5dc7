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

_ROLES_OF_LOGIN = """
SELECT rolname FROM pg_roles WHERE rolname = ANY(%(roles)s) AND pg_has_role(oid, 'USAGE')
ORDER BY rolname
"""


def roles_of_login(conn: Connection) -> list[str]:
    """Return the services' roles whose rights a session has by itself, without taking one."""
    return [role for (role,) in conn.execute(_ROLES_OF_LOGIN, {"roles": list(ROLES)})]


def require_role(url: str, role: str, *, application_name: str, beside: str | None = None) -> None:
    """Raise Forbidden unless the login of the URL may take this role, saying what to run.

    Also where the role may not use the schema. ``beside``: the service whose login may be given the
    role as well. Raises ``psycopg.OperationalError`` when the database is not reached.
    """
    with connect(url, application_name=application_name) as conn:
        fault = role_fault(conn, role, beside=beside) or schema_fault(conn, role)
    if fault is not None:
        raise Forbidden(fault, code="database_role_missing")


def require_role_if_reached(url: str, role: str, *, application_name: str) -> None:
    """Do the same at the start of a service; a database that is away may come back later."""
    with suppress(psycopg.OperationalError):
        require_role(url, role, application_name=application_name)


def role_fault(conn: Connection, role: str, *, beside: str | None = None) -> str | None:
    """Return why the login of a session may not take the role, None when it may.

    A login of no service is to be given the role, one of another service is the wrong one here,
    unless this service is ``beside``.
    """
    found = conn.execute(_MAY_TAKE, {"roles": list(ROLES)}).fetchall()
    mine = [name for name, _, may_take in found if may_take]
    if role in mine:
        return None
    if role not in [name for name, _, _ in found]:
        return f"the database has no role {role}: run duebook migrate"
    login = f'"{found[0][1]}"'
    fault = f"the database's role {login} may not act as {role}"
    if mine and mine != [beside]:
        return f"{fault}: it is of {', '.join(mine)}, use a login of {role}"
    grant = f"GRANT {role} TO {login}"
    if mine and conn.info.server_version >= 160_000:  # before, it would be the login's attribute
        grant += " WITH INHERIT FALSE"
    return f"{fault}: let a superuser, or who made that role, run {grant}"


# A table in a schema that may not be used is not there for who looks it up by its name. The path
# may quote names; current_schemas() leaves out the very ones that may not be used.
_HIDDEN_IN = """
WITH asked AS (SELECT coalesce(%(role)s::text, session_user::text) AS role)
SELECT
    role,
    quote_ident(min(nspname)),
    EXISTS (
        SELECT FROM pg_roles
        WHERE rolname = ANY(%(roles)s) AND pg_has_role(asked.role::name, oid, 'USAGE')
    )
FROM asked, pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relname = 'schema_migration' AND relkind = 'r' AND nspname = ANY(
    regexp_split_to_array(
        replace(replace(current_setting('search_path'), '"', ''), '$user', asked.role), ' *, *'
    )
)
GROUP BY role
HAVING NOT bool_or(has_schema_privilege(asked.role::name, relnamespace, 'USAGE'))
"""


def schema_fault(conn: Connection, role: str | None = None) -> str | None:
    """Return why a role, which is there, sees no table of ours, None when it does or none is.

    ``role`` None: who logged in. Schemas are those of the session's search_path.
    """
    found = conn.execute(_HIDDEN_IN, {"role": role, "roles": list(ROLES)}).fetchone()
    if found is None:
        return None
    who, schema, is_of_service = found
    fault = f"{who} may not use the schema {schema}"
    if not is_of_service:
        return f"{fault}, and has the rights of no service"
    return f"{fault}: let its owner run GRANT USAGE ON SCHEMA {schema} TO {', '.join(ROLES)}"
