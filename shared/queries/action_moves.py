"""Scheduled actions in the hands of people: edited, cancelled, brought forward, retried; and age.

Their births are in ``scheduled_actions``, how they are listed in ``action_lists``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from shared.domain.scheduled_actions import Branch
from shared.queries.action_lists import ActionFilter, clauses, parameters

# A message that was sent for the old time is refused by the claim, which asks whether it is due.
# What waits no longer, since its branch is decided, keeps the deadline that it was decided by.
#
# What is sent otherwise is another call, under another key, and none of it was ever sent: an intent
# and a failure for good are those of the call before, and so is what a stepwise action had done. An
# ok that comes late, from a worker who lost the old call, must not end the new one: the token is
# new, and with it the row is announced anew. A time that is moved, or another way to take failures,
# leaves the call what it was.
_EDIT = """
WITH edited AS MATERIALIZED (
    SELECT
        id,
        %(action_config)s::jsonb IS NOT NULL
            AND (%(action_type)s::text, %(action_config)s::jsonb - '{on_error,on_unknown}'::text[])
                IS DISTINCT FROM (action_type, action_config - '{on_error,on_unknown}'::text[])
            AS anew
    FROM scheduled_action
    WHERE id = %(action_id)s AND tenant_id = %(tenant_id)s AND status = 'pending'
    FOR UPDATE
)
UPDATE scheduled_action AS action
SET execute_at = coalesce(%(execute_at)s, action.execute_at),
    expires_at = CASE
        WHEN action.mode = 'waitForTracking' AND action.branch IS NULL
            THEN coalesce(%(execute_at)s, action.expires_at)
        ELSE action.expires_at
    END,
    next_attempt_at = coalesce(%(execute_at)s, action.next_attempt_at),
    announce_at = CASE
        WHEN edited.anew THEN coalesce(%(execute_at)s, action.next_attempt_at)
        ELSE coalesce(%(execute_at)s, action.announce_at)
    END,
    announcements = CASE
        WHEN edited.anew OR %(execute_at)s IS NOT NULL THEN 0
        ELSE action.announcements
    END,
    action_config = coalesce(%(action_config)s, action.action_config),
    action_type = coalesce(%(action_type)s, action.action_type),
    edits = action.edits + edited.anew::int,
    lease_token = CASE WHEN edited.anew THEN gen_random_uuid() ELSE action.lease_token END,
    open_action = CASE WHEN NOT edited.anew THEN action.open_action END,
    action_results = CASE
        WHEN edited.anew AND action.action_results -> 0 -> 'ok' = 'false'
            THEN jsonb_set(
                action.action_results #- '{0,progress}' #- '{0,unfinished}', '{0,transient}', 'true'
            )
        ELSE action.action_results
    END,
    updated_at = %(now)s
FROM edited
WHERE action.id = edited.id
"""


def edit(
    conn: Connection,
    tenant_id: UUID,
    action_id: int,
    *,
    execute_at: datetime | None,
    action_config: Mapping[str, Any] | None,
    now: datetime,
) -> bool:
    """pending -> pending: give an action another time or other settings; None leaves it; notify.

    The deadline of a wait moves with its time. What is sent otherwise is another call: ``edits``
    counts it, nothing is known to have been sent of it, and messages and workers of the one before
    mean nothing any more. False: it is not pending, or not the tenant's.
    """
    values = {
        "tenant_id": tenant_id,
        "action_id": action_id,
        "execute_at": execute_at,
        "action_config": None if action_config is None else Jsonb(action_config),
        "action_type": None if action_config is None else action_config["type"],
        "now": now,
    }
    return conn.execute(_EDIT, values).rowcount == 1


_CANCELLED = """
UPDATE scheduled_action
SET status = 'cancelled',
    error = 'cancelled',
    next_attempt_at = NULL,
    announce_at = NULL,
    finished_at = %(now)s,
    updated_at = %(now)s
"""

_ONE = """
WHERE id = %(action_id)s AND tenant_id = %(tenant_id)s AND status = 'pending'
"""

_CANCEL = _CANCELLED + _ONE


def cancel(conn: Connection, tenant_id: UUID, action_id: int, *, now: datetime) -> bool:
    """pending -> cancelled: end an action that nobody has started; False when it is not pending."""
    values = {"tenant_id": tenant_id, "action_id": action_id, "now": now}
    return conn.execute(_CANCEL, values).rowcount == 1


_CHOSEN = """
WHERE id = ANY(ARRAY(
    SELECT id
    FROM scheduled_action
"""

_LOCKED = """
        AND status = 'pending'
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE
))
    AND status = 'pending'
"""


def cancel_matching(
    conn: Connection, tenant_id: UUID, filter: ActionFilter, *, limit: int, now: datetime
) -> int:
    """pending -> cancelled: end up to ``limit`` that the filter finds, the oldest; return how many.

    Only pending ones, whatever status the filter names.
    """
    statement = _CANCELLED + _CHOSEN + clauses(filter) + _LOCKED
    values = parameters(tenant_id, filter) | {"limit": limit, "now": now}
    return conn.execute(statement, values, prepare=False).rowcount


# Who lets a wait expire moves its deadline to now: a click that comes later was not in time. One
# that came before has won, though it may not have reached the row yet.
_BRING_FORWARD = """
UPDATE scheduled_action AS action
SET branch = coalesce(action.branch, %(branch)s),
    execute_at = least(action.execute_at, %(now)s),
    expires_at = CASE
        WHEN action.branch IS NULL AND %(branch)s = 'expired'
            THEN least(action.expires_at, %(now)s)
        ELSE action.expires_at
    END,
    urgent = true,
    next_attempt_at = %(now)s,
    announce_at = %(now)s,
    updated_at = %(now)s
WHERE action.id = %(action_id)s
    AND action.tenant_id = %(tenant_id)s
    AND action.status = 'pending'
    AND CASE
        WHEN action.mode = 'normal' THEN %(branch)s::text IS NULL
        WHEN action.branch IS NOT NULL THEN action.branch = %(branch)s
        WHEN %(branch)s = 'clicked' THEN true
        ELSE %(branch)s = 'expired' AND NOT EXISTS (
            SELECT
            FROM tracking_click AS click
            WHERE click.link_id = action.tracking_link_id
                AND click.first_clicked_at < action.expires_at
        )
    END
"""


def bring_forward(
    conn: Connection,
    tenant_id: UUID,
    action_id: int,
    *,
    branch: Branch | None,
    now: datetime,
) -> bool:
    """pending -> pending: make an action due now, a wait with the branch that it takes; notify.

    False: it is not pending, or not the tenant's; it is no wait and a branch is given, or a wait
    and none is; its branch is decided already, to be another; or it is to expire though its link
    was clicked in time.
    """
    values = {"tenant_id": tenant_id, "action_id": action_id, "branch": branch, "now": now}
    return conn.execute(_BRING_FORWARD, values).rowcount == 1


# The token stays until the next claim: nobody has begun anew, and a late ok still counts.
_REARM = """
UPDATE scheduled_action
SET status = 'pending',
    action_results = CASE
        WHEN action_results -> 0 -> 'ok' = 'false'
            THEN jsonb_set(action_results, '{0,transient}', 'true')
        ELSE action_results
    END,
    urgent = true,
    attempts = 0,
    worker_losses = 0,
    error = NULL,
    finished_at = NULL,
    next_attempt_at = %(now)s,
    announce_at = %(now)s,
    updated_at = %(now)s
WHERE id = %(action_id)s AND tenant_id = %(tenant_id)s AND status = 'failed'
"""


def rearm(conn: Connection, tenant_id: UUID, action_id: int, *, now: datetime) -> bool:
    """failed -> pending: retry by hand, with a fresh budget; notify.

    A wait keeps the branch that it took. False: it has not failed, or is not the tenant's.
    """
    values = {"tenant_id": tenant_id, "action_id": action_id, "now": now}
    return conn.execute(_REARM, values).rowcount == 1


# A step of an execution that still lives stays: it is what keeps its node from a second one.
_DELETE_FINISHED = """
WITH old AS MATERIALIZED (
    SELECT id
    FROM scheduled_action AS action
    WHERE finished_at < %(before)s
        AND NOT EXISTS (
            SELECT
            FROM scheduled_action AS step
            WHERE step.execution_id = action.execution_id AND step.finished_at IS NULL
        )
    ORDER BY finished_at, id
    LIMIT %(limit)s
    FOR UPDATE OF action SKIP LOCKED
)
DELETE FROM scheduled_action AS action
USING old
WHERE action.id = old.id
"""


def delete_finished(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` actions that ended before then, the oldest; return how many went.

    Steps of an execution go when no step of it is left to be done.
    """
    return conn.execute(_DELETE_FINISHED, {"before": before, "limit": limit}).rowcount
