"""NOTIFY and LISTEN: a hint that waiting ends sooner than planned. Nothing is lost without it."""

from psycopg import Connection

_NOTIFY_WORK = "NOTIFY duebook_work"


def notify_work(conn: Connection) -> None:
    """Tell scanner and brokerless workers, at commit, that a pending row can be worked on."""
    conn.execute(_NOTIFY_WORK)


_NOTIFY_DUE = "NOTIFY duebook_due"


def notify_due(conn: Connection) -> None:
    """Tell the scanner, at commit, that something comes due earlier than it may have planned."""
    conn.execute(_NOTIFY_DUE)


_LISTEN_FOR_WORK = "LISTEN duebook_work"


def listen_for_work(conn: Connection) -> None:
    """Hear ``notify_work`` on this session from now on."""
    conn.execute(_LISTEN_FOR_WORK)


_LISTEN_FOR_DUE = "LISTEN duebook_due"


def listen_for_due(conn: Connection) -> None:
    """Hear ``notify_due`` on this session from now on."""
    conn.execute(_LISTEN_FOR_DUE)
