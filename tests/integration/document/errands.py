"""Errands: what is done one after the other, from the making of something to its end.

Each step is the id of an operation, in one of its scopes, and what its body has in any case.
"""

from tests.integration.document.making import AWAY, CHATROOM

EXECUTE = object()
NOTIFY = {"type": "notify", "chatroom_id": CHATROOM, "message": "done"}
# No address that may be called: what calls it fails for good.
FORBIDDEN = {"type": "webhook", "url": "http://10.0.0.1/hook"}
INTERVAL = {"type": "interval", "every_seconds": 60}
DATE = {"type": "date_column_reached", "column": "到期時間"}


def triggers(*actions, **trigger):
    trigger = {"on": "record_created", **trigger, "actions": actions}
    return "triggers.set", {"triggers": [trigger]}


def rule(*actions):
    return "triggerRules.make", {"actions": actions, "enabled": True}


def plainly(*names):
    return [(name, {}) for name in names]


ERRANDS = [
    [
        *plainly("tables.create"),
        triggers(NOTIFY),
        *plainly("records.create", "triggerRuns.list", "triggerRuns.get", "triggerRuns.cancel"),
        *plainly("triggerRuns.retry"),
        (EXECUTE, None),
        *plainly("triggerRuns.get", "triggerRuns.retryAll", "triggerRuns.cancelAll"),
        *plainly("triggerRuns.delete"),
        *plainly("records.change", "records.delete", "records.restore", "records.get"),
        *plainly("tables.trash", "tables.restore", "chatrooms.messages"),
    ],
    [
        ("tables.create", {"approval": "required"}),
        triggers({"type": "update_record", "data": {"amount": 7}}),
        *plainly("records.create"),
        (EXECUTE, None),
        *plainly("stagedChanges.list", "stagedChanges.get", "stagedChanges.approve"),
        *plainly("records.create"),
        (EXECUTE, None),
        *plainly("stagedChanges.list", "stagedChanges.reject", "stagedChanges.rejectAll"),
        *plainly("stagedChanges.list", "records.list"),
    ],
    [
        *plainly("tables.create"),
        ("records.create", {"data": {"到期時間": "2020-01-01"}}),
        triggers(FORBIDDEN, on="schedule", schedule=DATE),
        *plainly("triggers.schedulePreview", "root.runDueTriggers", "triggerRuns.list"),
        (EXECUTE, None),
        *plainly("triggerRuns.get", "triggerRuns.retry", "triggers.schedulePreview"),
    ],
    [
        *plainly("tables.create"),
        triggers({"type": "webhook", "url": AWAY}, on="schedule", schedule=INTERVAL),
        *plainly("triggers.get", "root.runDueTriggers"),
        (EXECUTE, None),
        *plainly("triggerRuns.list", "triggerRuns.get", "triggers.schedulePreview"),
    ],
    [
        *plainly("lineUsers.register"),
        rule({**NOTIFY, "delay": {"seconds": 600}}, FORBIDDEN),
        *plainly(
            "events.take",
            "events.list",
            "events.get",
            "scheduledActions.list",
            "scheduledActions.get",
        ),
        *plainly("scheduledActions.change", "scheduledActions.cancel"),
        (EXECUTE, None),
        *plainly("scheduledActions.get", "scheduledActions.list", "scheduledActions.cancelAll"),
        *plainly("triggerRules.replace", "triggerRules.get", "triggerRules.delete"),
        *plainly("lineUsers.alter", "lineUsers.get", "lineUsers.delete"),
    ],
    [
        ("triggerRules.make", {"event": "refused", "actions": [FORBIDDEN], "enabled": True}),
        ("events.take", {"name": "refused", "line_user_id": None}),
        (EXECUTE, None),
        *plainly("scheduledActions.list", "scheduledActions.retry"),
        (EXECUTE, None),
        *plainly("scheduledActions.get", "triggerRules.delete"),
    ],
    [
        ("workflows.make", {"nodes": [{"type": "delay", "seconds": 600}]}),
        ("workflows.start", {"line_user_id": None}),
        *plainly("workflows.executions", "workflows.execution"),
        *plainly("scheduledActions.list", "scheduledActions.get"),
        ("scheduledActions.runNow", {}),
        (EXECUTE, None),
        *plainly("workflows.execution", "workflows.replace", "workflows.getVersion"),
        *plainly("workflows.delete"),
    ],
    [
        *plainly("commands.register", "commands.alter", "commands.delete"),
        *plainly("secrets.set", "secrets.list", "secrets.delete"),
        *plainly("trackingLinks.create", "trackingLinks.follow", "trackingLinks.get"),
        *plainly("tokens.issue", "tokens.revoke"),
        *plainly("bundle.export", "bundle.plan", "bundle.apply"),
    ],
]
