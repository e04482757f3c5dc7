"""What must hold of scheduled actions, clicks and workflows alone."""

from shared.domain.invariants import Invariant

_CLICK_FORGOTTEN = """
SELECT 'click on link ' || link_id
FROM tracking_click
WHERE unlocked_at IS NULL AND first_clicked_at < %(settled_before)s
ORDER BY link_id
LIMIT %(limit)s
"""

# A run's receipt of a delayed action names what it scheduled, as long as that is kept.
_SCHEDULED_FOR_ANOTHER = """
SELECT format('run %%s, scheduled action %%s', run.id, action.id)
FROM trigger_run AS run
CROSS JOIN LATERAL jsonb_array_elements(run.action_results) AS receipt
JOIN scheduled_action AS action ON action.id = (receipt ->> 'scheduled_action_id')::bigint
WHERE (action.tenant_id, action.run_id) IS DISTINCT FROM (run.tenant_id, run.id)
ORDER BY run.id
LIMIT %(limit)s
"""

_DONE_WITHOUT_RECEIPT = """
SELECT 'scheduled action ' || id
FROM scheduled_action
WHERE status = 'done'
    AND (
        jsonb_array_length(action_results) <> 1
        OR action_results -> 0 -> 'ok' IS DISTINCT FROM 'true'
    )
ORDER BY id
LIMIT %(limit)s
"""

_ENDED_UNDECIDED = """
SELECT 'scheduled action ' || id
FROM scheduled_action
WHERE status = 'done' AND mode = 'waitForTracking' AND branch IS NULL
ORDER BY id
LIMIT %(limit)s
"""

# When a click committed cannot be seen any more; that its unlock was tried before the deadline
# says that it was there in time.
_CLICK_OVERRULED = """
SELECT format('scheduled action %%s, link %%s', wait.id, click.link_id)
FROM scheduled_action AS wait
JOIN tracking_click AS click ON click.link_id = wait.tracking_link_id
WHERE wait.branch = 'expired'
    AND click.first_clicked_at < wait.expires_at
    AND click.unlocked_at < wait.expires_at
ORDER BY wait.id
LIMIT %(limit)s
"""

_OTHER_BRANCH_TAKEN = """
SELECT format('execution %%s, step %%s', step.execution_id, step.workflow_node_path)
FROM scheduled_action AS wait
JOIN scheduled_action AS step
    ON step.execution_id = wait.execution_id
    AND starts_with(
        step.workflow_node_path,
        wait.workflow_node_path
            || CASE wait.branch WHEN 'expired' THEN '.clicked.' ELSE '.not_clicked.' END
    )
WHERE wait.mode = 'waitForTracking'
    AND (wait.branch IS NOT NULL OR wait.status = 'pending')
ORDER BY step.id
LIMIT %(limit)s
"""

_SUBJECT_OF_ANOTHER_TABLE = """
SELECT 'scheduled action ' || action.id
FROM scheduled_action AS action
JOIN record ON record.id = action.record_id
WHERE record.table_id <> action.table_id
ORDER BY action.id
LIMIT %(limit)s
"""

_CAUSE_OF_ANOTHER_TENANT = """
SELECT 'scheduled action ' || action.id
FROM scheduled_action AS action
LEFT JOIN trigger_run AS run ON run.id = action.run_id
LEFT JOIN event ON event.id = action.event_id
LEFT JOIN trigger_rule AS rule ON rule.id = action.rule_id
WHERE run.tenant_id <> action.tenant_id
    OR event.tenant_id <> action.tenant_id
    OR rule.tenant_id <> action.tenant_id
ORDER BY action.id
LIMIT %(limit)s
"""

_STEP_OF_ANOTHER_WORKFLOW = """
SELECT format('scheduled action %%s, execution %%s', step.id, execution.id)
FROM scheduled_action AS step
JOIN workflow_execution AS execution ON execution.id = step.execution_id
LEFT JOIN tracking_link AS link ON link.id = step.tracking_link_id
WHERE (execution.workflow_id, execution.workflow_version)
        <> (step.workflow_id, step.workflow_version)
    OR execution.line_user_id IS DISTINCT FROM step.line_user_id
    OR (
        step.action_type = 'wait_for_tracking'
        AND (link.execution_id, link.workflow_node_path)
            IS DISTINCT FROM (step.execution_id, step.workflow_node_path)
    )
ORDER BY step.id
LIMIT %(limit)s
"""

_WAY_FORWARD = "what is not ended has a way forward, and takes it in time"
_EFFECT_ONCE = "an internal effect and its receipt are one"
_ONE_BRANCH = "a wait takes one branch, and a click in time wins"
_APART = "no row refers to one of another tenant or table"

ACTION_INVARIANTS = (
    Invariant(number="I8", promise=_WAY_FORWARD, statement=_CLICK_FORGOTTEN),
    Invariant(number="I10", promise=_EFFECT_ONCE, statement=_SCHEDULED_FOR_ANOTHER),
    Invariant(
        number="I11",
        promise="a scheduled action that is done has one receipt, an ok one",
        statement=_DONE_WITHOUT_RECEIPT,
    ),
    Invariant(number="I14", promise=_ONE_BRANCH, statement=_ENDED_UNDECIDED),
    Invariant(number="I14", promise=_ONE_BRANCH, statement=_CLICK_OVERRULED),
    Invariant(number="I14", promise=_ONE_BRANCH, statement=_OTHER_BRANCH_TAKEN),
    Invariant(number="I16", promise=_APART, statement=_SUBJECT_OF_ANOTHER_TABLE),
    Invariant(number="I16", promise=_APART, statement=_CAUSE_OF_ANOTHER_TENANT),
    Invariant(
        number="I17",
        promise="a step is of the workflow, version and contact that its execution began with",
        statement=_STEP_OF_ANOTHER_WORKFLOW,
    ),
)
