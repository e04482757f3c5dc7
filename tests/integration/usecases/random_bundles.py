"""Random definitions of a tenant as the lines of a bundle, and random edits of them."""

import json

from hypothesis import strategies as st

from tests.builders_rules import NOTIFY
from tests.strategies import json_values

_TYPES = ("text", "number", "checkbox", "select", "date", "datetime", "json")
_NAMES = st.sampled_from(["", "late", "überfällig", "到期提醒", "a'b\"c"])
_PAYLOADS = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3).filter(
    lambda payload: "$" not in json.dumps(payload)
)


@st.composite
def documents(draw):
    """Return lines that a tenant without anything takes."""
    world = _World(draw)
    tables = [world.table(number) for number in range(draw(st.integers(1, 3)))]
    commands = [world.command(number) for number in range(draw(st.integers(0, 2)))]
    workflows = [world.workflow(number) for number in range(draw(st.integers(0, 2)))]
    rules = [world.rule(number) for number in range(draw(st.integers(0, 2)))]
    triggers = [
        world.trigger(table, number)
        for table in tables
        for number in range(draw(st.integers(0, 4)))
    ]
    return draw(st.permutations([*tables, *commands, *workflows, *rules, *triggers]))


class _World:
    """What was drawn so far: whatever is drawn later may name it."""

    def __init__(self, draw):
        self.draw = draw
        self.tables = []
        self.commands = []
        self.workflows = []
        self.ids = 0

    def one_of(self, values):
        return self.draw(st.sampled_from(values))

    def table(self, number):
        types = self.draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=4))
        columns = [
            {"name": f"col_{number}{place}_", "type": type} for place, type in enumerate(types)
        ]
        for column in columns:
            if column["type"] == "select":
                column["options"] = ["open", "zu"]
        line = {"kind": "table", "name": f"table {number}", "columns": columns}
        if self.draw(st.booleans()):
            line["approval"] = "required"
        self.tables.append(line)
        return line

    def command(self, number):
        name = f"command {number}"
        self.commands.append(name)
        return {
            "kind": "command",
            "name": name,
            "url": "https://example.com/c",
            "input_schema": {"type": "object"},
        }

    def workflow(self, number):
        nodes = [{"type": "action", "action": self.action()} for _ in range(self.one_of([1, 2]))]
        branch = {"type": "branch", "when": [], "then": nodes, "else": [{"type": "stop"}]}
        name = f"workflow {number}"
        self.workflows.append(name)
        return {"kind": "workflow", "name": name, "nodes": self.one_of([nodes, [branch]])}

    def rule(self, number):
        line = {
            "kind": "trigger_rule",
            "name": f"rule {number}",
            "event": self.one_of(["paid", "送出"]),
            "actions": [self.action()],
        }
        if self.draw(st.booleans()):
            line["conditions"] = [{"column": "event.sum", "op": "gte", "value": 1e16}]
        return line

    def trigger(self, table, number):
        line = {"kind": "trigger", "table": table["name"], **self.head(table)}
        line["name"] = self.draw(_NAMES)
        line["actions"] = [self.action() for _ in range(self.one_of([1, 2]))]
        self.ids += 1
        if self.draw(st.booleans()):
            line["id"] = f"trg_{self.ids:012x}"
        if self.draw(st.booleans()):
            line["enabled"] = self.draw(st.booleans())
        return line

    def head(self, table):
        columns = [one["name"] for one in table["columns"] if one["type"] in ("date", "datetime")]
        kinds = ["interval", "daily", "cron", "record_created", "record_deleted"]
        kind = self.one_of([*kinds, "date_column_reached"] if columns else kinds)
        match kind:
            case "interval":
                schedule = {"type": kind, "every_seconds": self.draw(st.integers(60, 2_592_000))}
            case "daily":
                schedule = {"type": kind, "at": "09:30", **self.zone()}
            case "cron":
                expression = self.one_of(["*/15  8-18 * * 1-5", " 0 9 1 1 * "])
                schedule = {"type": kind, "expression": expression, **self.zone()}
            case "date_column_reached":
                offset = self.one_of([{}, {"offset_minutes": 0}, {"offset_minutes": -60}])
                schedule = {"type": kind, "column": self.one_of(columns), **offset}
            case event:
                return {"on": event}
        return {"on": "schedule", "schedule": schedule}

    def zone(self):
        return self.one_of([{}, {"timezone": "UTC"}, {"timezone": "Asia/Taipei"}])

    def action(self):
        kinds = ["notify", "webhook", "create_record", "delayed"]
        kinds += ["invoke_command"] * bool(self.commands) + ["start_workflow"] * bool(
            self.workflows
        )
        match self.one_of(kinds):
            case "notify":
                return NOTIFY
            case "webhook":
                payload = self.draw(_PAYLOADS)
                return {"type": "webhook", "url": "https://example.com/h", "payload": payload}
            case "create_record":
                return self.creation()
            case "delayed":
                return {**self.creation(), "delay": {"seconds": self.draw(st.integers(1, 99))}}
            case "invoke_command":
                return {"type": "invoke_command", "command": self.one_of(self.commands)}
            case _:
                return {"type": "start_workflow", "workflow": self.one_of(self.workflows)}

    def creation(self):
        table = self.one_of(self.tables)
        texts = [one["name"] for one in table["columns"] if one["type"] == "text"]
        data = {name: "x" for name in texts if self.draw(st.booleans())}
        return {"type": "create_record", "table": table["name"], "data": data}


@st.composite
def edits(draw, exported, *, first):
    """Return the lines of an export as somebody edited them, so that they are still taken."""
    lines = [json.loads(line) for line in exported.split("\n") if line]
    lines = first(draw, lines)
    for _ in range(draw(st.integers(0, 3))):
        lines = draw(st.sampled_from(EDITS))(draw, lines)
    return draw(st.permutations(lines))


def _of(kind, lines):
    return [line for line in lines if line["kind"] == kind]


def _change(draw, lines, kind, change):
    """Return the lines with one of a kind changed, if there is one."""
    chosen = draw(st.sampled_from(_of(kind, lines) or [None]))
    return [change(line) if line is chosen else line for line in lines]


def _drop_a_trigger(draw, lines):
    chosen = draw(st.sampled_from(_of("trigger", lines) or [None]))
    return [line for line in lines if line is not chosen]


def _forget_an_id(draw, lines):
    def without_id(line):
        return {key: value for key, value in line.items() if key != "id"}

    return _change(draw, lines, "trigger", without_id)


def _turn_a_trigger_off(draw, lines):
    return _change(
        draw, lines, "trigger", lambda line: {**line, "enabled": not line.get("enabled", True)}
    )


def _write_defaults(_, lines):
    def written(line):
        schedule = line.get("schedule", {})
        if schedule.get("type") in ("daily", "cron"):
            return {**line, "schedule": {"timezone": "UTC", **schedule}}
        if schedule.get("type") == "date_column_reached":
            return {**line, "schedule": {"offset_minutes": 0, **schedule}}
        return line

    return [written(line) for line in lines]


def _rename_a_column(draw, lines):
    names = [column["name"] for table in _of("table", lines) for column in table["columns"]]
    name = draw(st.sampled_from(names))
    text = json.dumps(lines).replace(json.dumps(name)[1:-1], f"{name}x_")
    return json.loads(text)


def _add_a_column(draw, lines):
    name = f"new_{draw(st.integers(0, 9))}"

    def with_column(line):
        others = [column for column in line["columns"] if column["name"] != name]
        place = draw(st.integers(0, len(others)))
        return {
            **line,
            "columns": [*others[:place], {"name": name, "type": "text"}, *others[place:]],
        }

    return _change(draw, lines, "table", with_column)


def _forget_ids_of_columns(draw, lines):
    def without_ids(line):
        columns = [{**column} for column in line["columns"]]
        for column in columns:
            column.pop("id", None)
        return {**line, "columns": columns}

    # Under a new name a column without an id is a new one, which is fine but for what names it.
    renamed = any("x_" in json.dumps(line["columns"]) for line in _of("table", lines))
    return lines if renamed else _change(draw, lines, "table", without_ids)


def _leave_a_table_out(draw, lines):
    """Leave out the line of a table; others may still name it."""
    renamed = any("x_" in json.dumps(line["columns"]) for line in _of("table", lines))
    tables = _of("table", lines)
    if renamed or len(tables) < 2:
        return lines
    chosen = draw(st.sampled_from(tables))
    return [line for line in lines if line is not chosen]


def _change_a_rule(draw, lines):
    return _change(draw, lines, "trigger_rule", lambda line: {**line, "event": "other"})


def _give_a_trigger_another_kind(draw, lines):
    """Write a trigger anew, without its id, as one of a kind that nobody else has drawn."""

    def anew(line):
        kept = {key: line[key] for key in ("kind", "table", "actions")}
        return {**kept, "on": "record_updated"}

    return _change(draw, lines, "trigger", anew)


def _add_a_rule(draw, lines):
    line = {"kind": "trigger_rule", "name": "added", "event": "paid", "actions": [NOTIFY]}
    return [*(one for one in lines if one.get("name") != "added"), line]


EDITS = (
    _give_a_trigger_another_kind,
    _add_a_rule,
    _drop_a_trigger,
    _forget_an_id,
    _turn_a_trigger_off,
    _write_defaults,
    _rename_a_column,
    _add_a_column,
    _forget_ids_of_columns,
    _leave_a_table_out,
    _change_a_rule,
)
