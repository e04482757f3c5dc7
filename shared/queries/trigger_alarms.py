"""Triggers that a person should look at: of all tables, as cheap as can be, for the scanner."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTrigger:
    """A trigger whose latest runs all failed."""

    tenant_id: UUID
    table_id: UUID
    trigger_id: str


# From table to table along the index of failed runs, a few of the newest of each; then the latest
# ends of the triggers found, past a limited number of runs that have not ended.
_LIST_FAILING = """
WITH RECURSIVE affected (table_id) AS (
    (SELECT table_id FROM trigger_run WHERE status = 'failed' ORDER BY table_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT trigger_run.table_id
        FROM trigger_run
        WHERE trigger_run.status = 'failed' AND trigger_run.table_id > affected.table_id
        ORDER BY trigger_run.table_id
        LIMIT 1
    )
    FROM affected
    WHERE affected.table_id IS NOT NULL
), suspect AS (
    SELECT newest.tenant_id, newest.table_id, newest.trigger_id
    FROM affected
    CROSS JOIN LATERAL (
        SELECT tenant_id, table_id, trigger_id, finished_at
        FROM trigger_run
        WHERE status = 'failed' AND table_id = affected.table_id
        ORDER BY id DESC
        LIMIT 100
    ) AS newest
    GROUP BY newest.tenant_id, newest.table_id, newest.trigger_id
    HAVING count(*) >= %(streak)s AND max(newest.finished_at) > %(since)s
    LIMIT 5 * %(limit)s
)
SELECT suspect.tenant_id, suspect.table_id, suspect.trigger_id
FROM suspect
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE latest.status = 'failed') AS failed
    FROM (
        SELECT seen.status
        FROM (
            SELECT id, status
            FROM trigger_run
            WHERE table_id = suspect.table_id AND trigger_id = suspect.trigger_id
            ORDER BY id DESC
            LIMIT 500
        ) AS seen
        WHERE seen.status IN ('done', 'failed')
        ORDER BY seen.id DESC
        LIMIT %(streak)s
    ) AS latest
) AS ended
WHERE ended.failed = %(streak)s
ORDER BY suspect.table_id, suspect.trigger_id
LIMIT %(limit)s
"""


def list_failing_triggers(
    conn: Connection, *, streak: int, since: datetime, limit: int
) -> list[FailingTrigger]:
    """Return the triggers whose latest ``streak`` ends are failures, one of them after ``since``.

    Only those with as many among the newest 100 failures of their table, and not all of very many.
    """
    parameters = {"streak": streak, "since": since, "limit": limit}
    with conn.cursor(row_factory=class_row(FailingTrigger)) as cursor:
        return cursor.execute(_LIST_FAILING, parameters).fetchall()
