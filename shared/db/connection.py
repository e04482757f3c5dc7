"""Database sessions: how every process of the product connects, with its time limits."""

import select
from functools import partial
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from shared.db.tenant_session import TenantSession
from shared.lifecycle import monotonic

STATEMENT_SECONDS = 30
LOCK_SECONDS = 3
IDLE_IN_TRANSACTION_SECONDS = 15

# A peer that went silent is noticed within 30 s on both sides, so that its locks do not stay.
_SOCKET = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# A server that lives ends what lasts too long by itself and says so; then it is silent on purpose.
_SILENT_SECONDS = 10.0
_POOL_WAIT_SECONDS = 5.0
_FRESH_SECONDS = 1.0


def connect(
    url: str,
    *,
    application_name: str,
    role: str | None = None,
    statement_seconds: int = STATEMENT_SECONDS,
    lock_seconds: int = LOCK_SECONDS,
) -> TenantSession:
    """Open one session: autocommit, TimeZone UTC, limits on statements, locks, idle transactions.

    It acts as ``role``, of which the login is a member; None: as the login itself.
    ``statement_seconds=0`` means no limit. Raises ``psycopg.OperationalError``.
    """
    conninfo = _conninfo(
        url,
        application_name=application_name,
        role=role,
        statement_seconds=statement_seconds,
        lock_seconds=lock_seconds,
    )
    conn = TenantSession.connect(conninfo, autocommit=True)
    conn.patience_seconds = statement_seconds + _SILENT_SECONDS if statement_seconds else None
    if role is not None:
        _check_role(conn, role)
    return conn


def open_pool(
    url: str, *, application_name: str, size: int, role: str | None = None
) -> ConnectionPool[Any]:
    """Open a pool of at most ``size`` such sessions, each alive and of no tenant when handed out.

    It opens even while the database is away; then taking a session raises
    ``psycopg_pool.PoolTimeout`` after 5 seconds, until the database is back.
    """
    return ConnectionPool(
        connection_class=_PooledSession,
        conninfo=_conninfo(
            url,
            application_name=application_name,
            role=role,
            statement_seconds=STATEMENT_SECONDS,
            lock_seconds=LOCK_SECONDS,
        ),
        kwargs={"autocommit": True},
        min_size=1,
        max_size=size,
        timeout=_POOL_WAIT_SECONDS,
        # Its pauses double up to this: a longer one would outlast the return of the database. Given
        # up, a session is opened again when one is asked for.
        reconnect_timeout=_POOL_WAIT_SECONDS,
        configure=None if role is None else partial(_check_role, role=role),
        check=_check,
        reset=_unbind,
        name=application_name,
        open=True,
    )


def require_answer(conn: Connection) -> None:
    """Raise ``psycopg.OperationalError`` unless the server answers to nothing, within 10 s."""
    assert isinstance(conn, TenantSession)
    patience, conn.patience_seconds = conn.patience_seconds, _SILENT_SECONDS
    try:
        conn.execute("")
    finally:
        conn.patience_seconds = patience


class _PooledSession(TenantSession):
    """A session that knows when the server was last asked whether it lives."""

    checked_at = 0.0
    patience_seconds = STATEMENT_SECONDS + _SILENT_SECONDS


def _check_role(conn: TenantSession, role: str) -> None:
    """Raise ``psycopg.OperationalError`` for a session that does not act as the role.

    A pooler may have passed by our options: the login itself may be allowed more.
    """
    if conn.execute("SELECT current_user").fetchone() != (role,):
        conn.close()
        raise OperationalError(f"the session does not act as {role}: is a pooler in between?")


def _unbind(conn: TenantSession) -> None:
    """Let the next one who has the session begin without a tenant."""
    conn.bind(None)


def _check(conn: TenantSession) -> None:
    """Raise ``psycopg.OperationalError`` for a session that is lost.

    A question to the server for each short use would cost as much as the use. A server that ends a
    session says so on its socket; what went silent is noticed by asking once a second.
    """
    assert isinstance(conn, _PooledSession)
    now = monotonic()
    if now - conn.checked_at < _FRESH_SECONDS and not _has_something_to_read(conn):
        return
    require_answer(conn)
    conn.checked_at = now


def _has_something_to_read(conn: TenantSession) -> bool:
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _conninfo(
    url: str,
    *,
    application_name: str,
    role: str | None,
    statement_seconds: int,
    lock_seconds: int,
) -> str:
    given = conninfo_to_dict(url)
    settings = {
        "timezone": "UTC",
        "statement_timeout": f"{statement_seconds}s",
        "lock_timeout": f"{lock_seconds}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
        "client_connection_check_interval": "2s",
        # The same for the server's side of an idle session: a worker that was cut off finds its
        # liveness lock held by its own lost session until the server gives that up.
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    if role is not None:
        settings["role"] = role  # as the session's own: RESET ROLE leads nowhere else
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    parameters = {**_SOCKET, **given, "application_name": application_name}
    parameters["options"] = f"{given.get('options') or ''} {options}".strip()
    return make_conninfo("", **parameters)
