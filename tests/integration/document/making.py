"""What is asked: bodies that mean something where that is known, else what their schema allows."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.integration.api.callers import COLUMNS

CHATROOM = "11111111-1111-4111-8111-111111111111"
SECRET = "crm_token"
# Nobody listens there: a call of it fails at once, and for now.
AWAY = "http://127.0.0.1:9/hook"
NAMES = [column["name"] for column in COLUMNS]


class Maker:
    """Makes bodies and parameters by chance, out of what a walk has come upon."""

    def __init__(self, document, chance, found):
        self._document = document
        self._chance = chance
        self._found = found
        self._made = 0

    def body(self, operation, over=None):
        """Return (media type, bytes) of a body for an operation, (None, None) without one.

        With ``over``, which replaces parts of it, it is sound.
        """
        content = operation.content
        if not content:
            return None, None
        media = self._chance.choice([*content])
        if operation.name.startswith("bundle."):
            return media, self._bundle(operation)
        if media == "text/csv":
            return media, "案件名稱,amount\r\na,1\r\nb,x\r\n".encode()
        if media == "application/x-ndjson":
            lines = [json.dumps({"amount": 1}), "[]", json.dumps(self._cells())]
            return media, "\n".join(lines).encode()
        make = getattr(self, "_" + operation.name.replace(".", "_"), None)
        body = make() if make else self.value(content[media]["schema"])
        if over is not None:
            return media, json.dumps({**body, **over}).encode()
        if self._chance.random() < 0.1:
            body = self._spoiled(body)
        return media, json.dumps(body).encode()

    def _bundle(self, operation):
        """Return what was exported last, or, to be applied, what was planned."""
        remembered = self._found.remembered
        scope = operation.scope
        if operation.name == "bundle.apply" and (scope, "planned") in remembered:
            return remembered[scope, "planned"][0]
        line = {"kind": "table", "name": self._name(), "columns": COLUMNS}
        exported = remembered.get((scope, "exported"), b"")
        added = json.dumps(line).encode() if self._chance.random() < 0.5 else b""
        return exported + added

    def value(self, schema, depth=0):
        """Return a value that a schema allows, or nearly."""
        schema = self._document.resolved(schema)
        chance = self._chance
        if "enum" in schema:
            return chance.choice(schema["enum"])
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self.value(chance.choice(schema[word]), depth)
        if "allOf" in schema:
            return self.value(schema["allOf"][0], depth)
        kinds = schema.get("type", "object")
        kind = chance.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            count = 0 if depth > 4 else chance.randint(0, 2)
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
        return self._plain(kind, schema)

    def _object(self, schema, depth):
        required = schema.get("required", [])
        return {
            name: self.value(below, depth + 1)
            for name, below in schema.get("properties", {}).items()
            if not below.get("readOnly")
            and (name in required or (depth < 4 and self._chance.random() < 0.5))
        }

    def _plain(self, kind, schema):
        chance = self._chance
        low, high = schema.get("minimum", 0), schema.get("maximum", 1000)
        match kind:
            case "null":
                return None
            case "boolean":
                return chance.random() < 0.5
            case "integer":
                return chance.choice([low, high, min(low + 1, high), 60])
            case "number":
                return chance.choice([low, high, 0.5])
        match schema.get("format"):
            case "uuid":
                return str(UUID(int=chance.getrandbits(128)))
            case "date-time":
                return self._instant()
        return chance.choice(["x", "", "2026-01-01", "amount", "a b", "é" * 5, self._name()])

    def query(self, operation):
        """Return some of the parameters of an operation as text; the tenant is not among them."""
        said = {}
        for parameter in operation.parameters("query"):
            name = parameter["name"]
            is_left_out = self._chance.random() < (0.7 if operation.method == "GET" else 0.9)
            if name in ("tenant", "cursor") or (is_left_out and not parameter.get("required")):
                continue
            known = self._found.some(name)
            if name == "fingerprint":
                planned = self._found.remembered.get((operation.scope, "planned"))
                known = planned and planned[1]
            value = known if known is not None else self.value(parameter["schema"])
            if name == "where":
                value = json.dumps([self._condition()])
            if value is not None:
                said[name] = value if isinstance(value, str) else json.dumps(value)
        return said

    def _spoiled(self, body):
        if not isinstance(body, dict) or not body:
            return self._chance.choice([[], None, 1, {"unknown": 1}])
        name = self._chance.choice([*body])
        worse = self._chance.choice([None, 5, "x", [], {}, [None], True, 2**70, "deep"])
        if worse == "deep" and isinstance(body[name], (dict, list)) and body[name]:
            below = body[name] if isinstance(body[name], dict) else body[name][0]
            return {**body, name: self._spoiled(below)}
        without = {key: value for key, value in body.items() if key != name}
        return self._chance.choice([without, {**body, name: worse}, {**body, "unknown": worse}])

    def _name(self):
        self._made += 1
        return f"name {self._made}"

    def _instant(self):
        away = timedelta(hours=self._chance.randint(-3, 300))
        return (datetime(2027, 6, 1, tzinfo=UTC) + away).isoformat().replace("+00:00", "Z")

    def _condition(self):
        return {"column": "amount", "op": "gte", "value": self._chance.randint(0, 3)}

    def _cells(self):
        chance = self._chance
        cells = {
            "案件名稱": self._name(),
            "到期時間": chance.choice(["2020-01-01", "2026-11-30 08:00", "2999-01-01", "x", None]),
            "amount": chance.choice([0, 1, 2.5, None]),
            "done": chance.choice([True, False]),
            "state": chance.choice(["open", "closed"]),
            "more": chance.choice([{"a": [1]}, None, "text"]),
        }
        return {name: cells[name] for name in chance.sample([*cells], chance.randint(1, 6))}

    def _action(self, *, row):
        """Return an action; ``row``: where it is authored there is a row to act upon."""
        chance = self._chance
        table = self._found.some("table_id") or CHATROOM
        notify = {"type": "notify", "chatroom_id": CHATROOM, "message": "$trigger.name"}
        actions = [
            notify,
            {"type": "webhook", "url": AWAY},
            {"type": "webhook", "url": AWAY, "headers": {"X-Key": {"secret": SECRET}}},
            {"type": "api_call", "url": AWAY, "method": "GET"},
            {"type": "create_record", "table_id": table, "data": {"amount": 1}},
        ]
        if row:
            actions.append({"type": "update_record", "data": {"amount": 2}})
            actions.append({"type": "delete_record"})
        if name := self._found.name_of("command_id"):
            actions.append({"type": "invoke_command", "command": name, "inputs": {}})
        if name := self._found.name_of("workflow_id"):
            actions.append({"type": "start_workflow", "workflow": name})
        action = chance.choice(actions)
        if chance.random() < 0.3:
            action = {**action, "delay": self._delay(notify)}
        return action

    def _delay(self, notify):
        if (token := self._found.some("token")) and self._chance.random() < 0.5:
            return {
                "mode": "waitForTracking",
                "expiresSeconds": 600,
                "trackingLink": token,
                "on_expire": [notify],
            }
        return {"seconds": 60}

    def _actions(self, *, row):
        return [self._action(row=row) for _ in range(self._chance.randint(1, 2))]

    def _trigger(self):
        chance = self._chance
        schedule = chance.choice(
            [
                None,
                {"type": "date_column_reached", "column": "到期時間"},
                {"type": "interval", "every_seconds": 60},
                {"type": "daily", "at": "00:00", "timezone": "Asia/Taipei"},
                {"type": "cron", "expression": "* * * * *"},
            ]
        )
        by_row = schedule is None or schedule["type"] == "date_column_reached"
        trigger = {"name": self._name(), "actions": self._actions(row=by_row)}
        if schedule is None:
            trigger["on"] = chance.choice(["record_created", "record_updated"])
        else:
            trigger |= {"on": "schedule", "schedule": schedule}
        if by_row and chance.random() < 0.2:
            trigger["when"] = [self._condition()]
        return trigger

    def _node(self):
        notify = {"type": "notify", "chatroom_id": CHATROOM, "message": "$line_user.display_name"}
        return self._chance.choice(
            [
                {"type": "action", "action": notify},
                {"type": "delay", "seconds": 60},
                {
                    "type": "wait_for_tracking",
                    "seconds": 600,
                    "link": self._name().replace(" ", "_"),
                    "target_url": "https://example.com/offer",
                    "clicked": [{"type": "action", "action": notify}],
                },
                {"type": "stop"},
            ]
        )

    def _tables_create(self):
        approval = self._chance.choice(["none", "none", "required"])
        return {"name": self._name(), "columns": COLUMNS, "approval": approval}

    def _tables_alter(self):
        return self._chance.choice(
            [{"name": self._name()}, {"approval": "required"}, {"columns": COLUMNS}]
        )

    def _records_create(self):
        return {"data": self._cells()}

    _records_change = _records_create

    def _triggers_set(self):
        return {"triggers": [self._trigger() for _ in range(self._chance.randint(0, 4))]}

    def _tenants_create(self):
        return {"name": self._name() + str(self._chance.getrandbits(60))}

    def _tokens_issue(self):
        return {"name": self._name(), "role": self._chance.choice(["viewer", "moderator"])}

    def _secrets_set(self):
        return {"value": f"canary-{self._chance.getrandbits(60)}"}

    def _commands_register(self):
        name = self._name().replace(" ", "_")
        return {"name": name, "url": AWAY, "input_schema": {"type": "object"}}

    def _commands_alter(self):
        return {"url": AWAY + self._name().replace(" ", "")}

    def _lineUsers_register(self):
        attributes = {"purchases": self._chance.randint(0, 3)}
        return {"external_id": self._name(), "display_name": "Lin", "attributes": attributes}

    def _lineUsers_alter(self):
        return {"attributes": {"purchases": 1, "trial": None}}

    def _events_take(self):
        contact = self._found.some("line_user_id")
        return {"name": "paid", "line_user_id": contact, "data": {"sum": 1}}

    def _triggerRules_make(self):
        return {"name": self._name(), "event": "paid", "actions": self._actions(row=False)}

    _triggerRules_replace = _triggerRules_make

    def _workflows_make(self):
        nodes = [self._node() for _ in range(self._chance.randint(1, 3))]
        return {"name": self._name(), "nodes": nodes}

    _workflows_replace = _workflows_make

    def _workflows_start(self):
        return {"line_user_id": self._found.some("line_user_id"), "context": {"a": 1}}

    def _trackingLinks_create(self):
        return {"target_url": "https://example.com/offer", "name": self._name()}

    def _scheduledActions_change(self):
        return {"execute_at": self._instant()}

    def _scheduledActions_runNow(self):
        return self._chance.choice([{}, {"branch": "clicked"}, {"branch": "expired"}])

    def _scheduledActions_cancelAll(self):
        return {"line_user_id": self._found.some("line_user_id") or 1, "dry_run": True}
