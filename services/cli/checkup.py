"""What ``duebook doctor`` looks at: each check says in one line what it found."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Literal
from urllib.parse import urlsplit

import psycopg
from psycopg import Connection
from psycopg.errors import InsufficientPrivilege

from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.listener import Listener
from shared.db.migrate import NEEDED_ENCODING, encoding, of_newer_release, pending
from shared.db.roles import (
    API,
    ROLES,
    SCANNER,
    WORKER,
    role_fault,
    roles_of_login,
    schema_fault,
)
from shared.db.sessions import count_sessions
from shared.errors import AppError
from shared.lifecycle import Stop, wait_until
from shared.messaging.transport import open_publisher
from shared.observability.host_clock import seconds_ahead
from shared.queries import action_lists, approved_changes, run_lists, staged_changes
from shared.queries.announcements import count_due, count_running, next_announcement_at
from shared.queries.due_tables import list_tables_to_scan
from shared.queries.notifications import listen_for_work, notify_work
from shared.queries.workers import count_threads, list_releases, living_workers
from shared.setting_keys import WORKER_ROLES
from shared.settings import Settings, traces_url
from shared.tracking.redis_line import find_fault
from shared.usecases.rotate_secrets import survey_secrets

State = Literal["ok", "warning", "failed"]

_OLDEST_RELEASE = 15
_BROKER_SECONDS = 10.0
_HEARD_SECONDS = 5.0
_CLOCK_SECONDS = 2.0
_FULL = 0.8
_LATE_SECONDS = 120.0
_DUE_COUNTED = 10_000
_OWN_HOSTS = ("localhost", "0.0.0.0", "::", "::1")
# No login of a service is to be given another's role to be looked at with.
_USE_AN_OPERATORS = "look with the owner's login, or one of all three roles"
_NEVER_SCANNED = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, how it is, and what was found."""

    name: str
    state: State
    found: str


def examine(settings: Settings, *, verify: bool = False) -> Iterator[Check]:
    """Yield the checks of an installation; those of the database end with its first failure.

    ``verify``: the login has to see what invariants are asked of.
    """
    release = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    yield Check(name="release", state="ok", found=f"duebook {version('duebook')}, Python {release}")
    try:
        with connect(settings.database_url.reveal(), application_name="duebook-doctor") as conn:
            mine = [role for role in ROLES if role_fault(conn, role) is None]
            yield _database(conn)
            migrations = _migrations(conn, settings, role=mine[0] if mine else None)
            yield migrations
            yield _sessions(conn)
            yield _notifications(conn, settings)
            yield _clock(conn)
            if migrations.state == "ok":
                roles = _roles(conn, mine, verify=verify)
                yield roles
                if roles.state == "ok":
                    yield from _work(settings)
                yield _secrets(conn, settings)
    except psycopg.OperationalError as error:
        yield Check(name="database", state="failed", found=str(error).strip().splitlines()[0])
    yield _broker(settings)
    yield _redis(settings)
    yield _traces(settings)
    yield _links(settings)


def _database(conn: Connection) -> Check:
    release, kept_as = conn.info.server_version // 10_000, encoding(conn)
    is_fit = release >= _OLDEST_RELEASE and kept_as == NEEDED_ENCODING
    found = f"PostgreSQL {release}, {kept_as}"
    if not is_fit:
        found += f"; {_OLDEST_RELEASE} or newer and {NEEDED_ENCODING} are needed"
    return Check(name="database", state="ok" if is_fit else "failed", found=found)


def _migrations(conn: Connection, settings: Settings, *, role: str | None) -> Check:
    """``role``: one that the login may take, whether or not it has its rights without, if any."""
    if fault := schema_fault(conn, role):
        return Check(name="migrations", state="failed", found=f"not to be seen: {fault}")
    url = settings.database_url.reveal()
    try:
        with connect(url, application_name="duebook-doctor", role=role) as session:
            missing, newer = pending(session), of_newer_release(session)
    except InsufficientPrivilege:
        return Check(
            name="migrations", state="failed", found="not told to this login: it is of no service"
        )
    if missing:
        return Check(
            name="migrations",
            state="failed",
            found=f"run duebook migrate; missing: {', '.join(missing)}",
        )
    found = "all of this release are applied"
    if newer:
        found += f"; of a newer one: {', '.join(newer)}"
    return Check(name="migrations", state="ok", found=found)


def _roles(conn: Connection, mine: Sequence[str], *, verify: bool) -> Check:
    """Row level security would show no work to a login that is of no service, and all were well.

    Work is looked at as a scanner; invariants are asked of what scanner and API see together, by
    who has the rights of both at once.
    """
    if SCANNER not in mine:
        hidden = "sees nothing of what there is to do"
        found = f"the login may not act as {SCANNER}, and {hidden}: {_USE_AN_OPERATORS}"
        return Check(name="roles", state="failed", found=found)
    inherited = roles_of_login(conn)
    for role in (SCANNER, API) if verify else ():
        if role not in inherited:
            lacks = "may not act as" if role not in mine else "does not inherit the rights of"
            found = f"the login {lacks} {role}, and cannot verify: {_USE_AN_OPERATORS}"
            return Check(name="roles", state="failed", found=found)
    return Check(name="roles", state="ok", found=f"the login is of {', '.join(mine)}")


def _sessions(conn: Connection) -> Check:
    sessions = count_sessions(conn)
    found = f"{sessions.open} of {sessions.allowed} open"
    used = sessions.open / sessions.allowed
    if sessions.allowed_to_role is not None:
        found += f", {sessions.open_by_role} of the role's {sessions.allowed_to_role}"
        used = max(used, sessions.open_by_role / max(sessions.allowed_to_role, 1))
    return Check(name="sessions", state="ok" if used < _FULL else "warning", found=found)


def _notifications(conn: Connection, settings: Settings) -> Check:
    """A transaction pooler loses LISTEN, and with it the locks by which workers live."""

    def listening_session() -> Connection:
        session = connect(
            settings.database_url.reveal(), application_name="duebook-doctor-listener"
        )
        listen_for_work(session)
        return session

    listener, never = Listener(listening_session), Stop()
    listener.wait(0, wake=never)
    notify_work(conn)
    heard = listener.wait(_HEARD_SECONDS, wake=never)
    listener.close()
    if heard:
        return Check(name="notifications", state="ok", found="heard: the sessions are direct")
    return Check(
        name="notifications",
        state="failed",
        found="not heard: DATABASE_URL must lead to PostgreSQL itself, no transaction pooler",
    )


def _clock(conn: Connection) -> Check:
    offset = seconds_ahead(lambda: server_now(conn))
    state: State = "ok" if abs(offset) <= _CLOCK_SECONDS else "warning"
    return Check(
        name="clock",
        state=state,
        found=f"the database is {offset:+.3f} s off this machine; the database's counts",
    )


def _work(settings: Settings) -> Iterator[Check]:
    url = settings.database_url.reveal()
    with connect(url, application_name="duebook-doctor", role=SCANNER) as conn:
        now = server_now(conn)
        yield _workers(conn, settings)
        yield _scans(conn, now=now, round_seconds=settings.round_seconds)
        yield _waiting(conn, now=now)
        failed, stale = run_lists.count_failed(conn), run_lists.count_stale(conn, now=now)
        yield _stuck("stuck runs", failed, stale)
        failed, stale = action_lists.count_failed(conn), action_lists.count_stale(conn, now=now)
        yield _stuck("stuck actions", failed, stale)
        yield _changes(conn)


def _stuck(name: str, failed: int, stale: int) -> Check:
    return Check(
        name=name,
        state="warning" if failed or stale else "ok",
        found=f"{failed} failed, {stale} running without a sign of life",
    )


def _changes(conn: Connection) -> Check:
    overdue = approved_changes.count_overdue(conn, limit=_DUE_COUNTED)
    pending = staged_changes.count_pending(conn, limit=_DUE_COUNTED)
    oldest_at = staged_changes.oldest_pending_at(conn)
    since = "" if oldest_at is None else f" since {oldest_at:%Y-%m-%d}"
    return Check(
        name="staged changes",
        state="warning" if overdue else "ok",
        found=f"{pending} to be reviewed{since}, {overdue} approved and not applied in time",
    )


def _workers(conn: Connection, settings: Settings) -> Check:
    """Without a broker any worker takes all that is due; with one each role has a queue."""
    living = living_workers(conn)
    if not living:
        return Check(name="workers", state="warning", found="none lives")
    releases, threads = list_releases(conn, living), count_threads(conn, living)
    told = ", ".join(f"{threads.get(role, 0)} threads of {role}" for role in WORKER_ROLES)
    found = f"{len(living)} with {told}"
    is_fit = settings.amqp_url is None or all(threads.get(role) for role in WORKER_ROLES)
    if releases != [version("duebook")]:
        is_fit, found = False, f"{found}, of release {', '.join(releases)}"
    return Check(name="workers", state="ok" if is_fit else "warning", found=found)


def _scans(conn: Connection, *, now: datetime, round_seconds: int) -> Check:
    oldest = list_tables_to_scan(conn, limit=1)
    if not oldest:
        return Check(name="scanner", state="ok", found="no table has triggers")
    [(table_id, scanned_at)] = oldest
    if scanned_at == _NEVER_SCANNED:
        return Check(
            name="scanner", state="warning", found=f"table {table_id} was never scanned yet"
        )
    age = (now - scanned_at).total_seconds()
    return Check(
        name="scanner",
        state="ok" if age < 3 * round_seconds else "warning",
        found=f"every table was scanned within the last {age:.0f} s",
    )


def _waiting(conn: Connection, *, now: datetime) -> Check:
    due = count_due(conn, limit=_DUE_COUNTED)
    oldest = next_announcement_at(conn)
    late = (now - oldest).total_seconds() if oldest is not None and due else 0.0
    return Check(
        name="due work",
        state="ok" if late < _LATE_SECONDS else "warning",
        found=f"{due}{'+' if due == _DUE_COUNTED else ''} to be offered, the oldest since "
        f"{late:.0f} s; {count_running(conn)} running",
    )


def _secrets(conn: Connection, settings: Settings) -> Check:
    """Only a worker may read them."""
    if role_fault(conn, WORKER) is not None:
        found = f"not looked at: the login may not act as {WORKER}; {_USE_AN_OPERATORS}"
        return Check(name="secrets", state="warning", found=found)
    url, sealer = settings.database_url.reveal(), settings.sealer()
    with connect(url, application_name="duebook-doctor", role=WORKER) as session:
        kept = survey_secrets(session, sealer, now=server_now(session))
    if kept.unreadable:
        found = f"{kept.unreadable} of {kept.stored} can be decrypted with no key that is here"
        return Check(name="secrets", state="failed", found=found)
    if sealer.current is None:
        found = f"{kept.stored}, in the clear: ENCRYPTION_KEYS names no key"
        return Check(name="secrets", state="ok", found=found)
    others = kept.in_the_clear + kept.under_other_keys
    found = (
        f"{kept.stored}, {kept.in_the_clear} in the clear, {kept.under_other_keys} under other keys"
    )
    return Check(
        name="secrets",
        state="warning" if others else "ok",
        found=f"{found}: run duebook secrets rotate" if others else f"{kept.stored}, encrypted",
    )


def _broker(settings: Settings) -> Check:
    publisher = open_publisher(settings)
    if publisher is None:
        return Check(name="broker", state="ok", found="none: PostgreSQL is the transport")
    try:
        if not wait_until(publisher.ready, seconds=_BROKER_SECONDS):
            return Check(name="broker", state="failed", found="takes no messages: away, or blocked")
        depths = publisher.depths()
    except AppError as error:
        return Check(name="broker", state="failed", found=error.message)
    finally:
        publisher.close()
    dead = sum(depth for queue, depth in depths.items() if queue.endswith(".dead"))
    told = ", ".join(f"{queue} {depth}" for queue, depth in depths.items())
    return Check(name="broker", state="warning" if dead else "ok", found=told)


def _traces(settings: Settings) -> Check:
    url = traces_url(settings)
    found = "off" if url is None else f"sent to {url}, if the services have this setting too"
    return Check(name="traces", state="ok", found=found)


def _redis(settings: Settings) -> Check:
    if settings.redis_url is None:
        return Check(name="redis", state="ok", found="none: clicks are in PostgreSQL alone")
    fault = find_fault(settings.redis_url.reveal())
    if fault is None:
        return Check(name="redis", state="ok", found="answers")
    found = f"does not answer ({fault}); clicks are looked up in PostgreSQL"
    return Check(name="redis", state="warning", found=found)


def _links(settings: Settings) -> Check:
    """What begins with an address of this machine alone leads nobody else back to it."""
    found = f"begin with {settings.public_url}"
    host = urlsplit(settings.public_url).hostname or ""
    if host in _OWN_HOSTS or host.startswith("127."):
        found += ", which only this machine reaches: set PUBLIC_URL"
        return Check(name="tracking links", state="warning", found=found)
    return Check(name="tracking links", state="ok", found=found)
