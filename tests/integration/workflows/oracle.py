"""What must be true of a world in which everything has come to its end."""

from collections import Counter, defaultdict

from psycopg.rows import dict_row

from services.worker.run_scheduled_action import NOT_CLICKED, SUBJECT_GONE
from shared.db.clock import server_now
from shared.domain.event_rules import holds, read_conditions
from shared.domain.workflows import branch_step, first_step, next_step, node_at
from shared.queries.invariants import list_violations
from shared.queries.workflows import read_nodes
from tests.integration.workflows.trees import TELLING

_EXECUTIONS = "SELECT * FROM workflow_execution WHERE tenant_id = %s ORDER BY started_at, id"
_MESSAGES = "SELECT message FROM chat_message WHERE tenant_id = %s"
_RECORDS = "SELECT data ->> 'c1' FROM record WHERE tenant_id = %s"
_CLICKS = """
SELECT link.id, click.first_clicked_at, click.unlocked_at IS NOT NULL
FROM tracking_click AS click JOIN tracking_link AS link ON link.id = click.link_id
WHERE link.tenant_id = %s
"""


class Oracle:
    """The rows of a world, and what they must be."""

    def __init__(self, world):
        self._world = world
        self._conn = world.conn
        self._rows = {row["id"]: row for row in world.rows()}
        self._executions = {row["id"]: row for row in self._read(_EXECUTIONS)}
        self._started_by = {
            row["action_results"][0]["execution_id"]: row
            for row in self._rows.values()
            if row["action_type"] == "start_workflow" and row["status"] == "done"
        }

    def check(self):
        """Hold everything against what the script allows."""
        self._assert_ended()
        self._assert_events_are_taken_once()
        self._assert_executions_are_started_once()
        for execution in self._executions.values():
            self._assert_path(execution)
        self._assert_waits()
        self._assert_effects()
        self._assert_calls()
        now = server_now(self._conn)
        assert list_violations(self._conn, settled_before=now, limit=5) == []

    def _assert_ended(self):
        for row in self._rows.values():
            assert row["status"] in ("done", "failed", "cancelled"), told(row)
            assert row["worker_losses"] < 5
            gone = self._world.forgotten.get(row["line_user_id"])
            if row["status"] == "cancelled":
                assert row["error"] in (SUBJECT_GONE, NOT_CLICKED), told(row)
            if row["error"] == SUBJECT_GONE:
                assert gone is not None, told(row)
                assert gone < row["finished_at"], told(row)
            elif gone is not None:
                assert row["finished_at"] < gone, told(row)

    def _assert_events_are_taken_once(self):
        roots = defaultdict(list)
        for row in self._rows.values():
            if row["execution_id"] is None:
                roots[row["event_id"]].append(row)
        taken = [event for event in self._world.events if self._is_taken(event, roots)]
        assert len(roots) == len(taken)
        for rows in roots.values():
            kinds = Counter(row["action_type"] for row in rows)
            [wait] = [row for row in rows if row["mode"] == "waitForTracking"]
            is_over = wait["branch"] == "expired" and wait["status"] == "done"
            assert kinds == {"start_workflow": 1, "notify": 3 if is_over else 1}, kinds
            assert is_over <= self._world.script.expires

    def _is_taken(self, event, roots):
        """Whether an event was taken; one of a contact that was deleted before need not be."""
        numbers = {rows[0]["context"]["event"]["n"] for rows in roots.values()}
        is_taken = event.data["n"] in numbers
        assert is_taken or event.line_user_id in self._world.forgotten
        return is_taken

    def _assert_executions_are_started_once(self):
        assert {str(id) for id in self._executions} == self._started_by.keys()

    def _assert_path(self, execution):
        """Walk through the nodes as the steps have gone: each of them is there, and none beside."""
        nodes = read_nodes(self._conn, execution["workflow_id"], execution["workflow_version"])
        steps = {
            row["workflow_node_path"]: row
            for row in self._rows.values()
            if row["execution_id"] == execution["id"]
        }
        walked = []
        path = first_step(nodes, self._judge(execution, self._started_at(execution)))
        while path is not None:
            assert path in steps, (path, *map(told, walked))
            step = steps.pop(path)
            walked.append(step)
            self._assert_is_of_node(step, node_at(nodes, path))
            path = self._path_behind(step, nodes, self._judge(execution, step["finished_at"]))
        assert not steps, (*map(told, steps.values()), *map(told, walked))
        assert [row["id"] for row in walked] == sorted(row["id"] for row in walked)

    def _started_at(self, execution):
        return self._started_by[str(execution["id"])]["finished_at"]

    def _judge(self, execution, at):
        contact = self._world.contact_at(execution["line_user_id"], at)

        def judge(when):
            predicates, faults = read_conditions(when)
            assert not faults
            return holds(predicates, event=execution["context"], line_user=contact)

        return judge

    def _path_behind(self, step, nodes, judge):
        path = step["workflow_node_path"]
        node = node_at(nodes, path)
        if step["status"] == "cancelled":
            return None
        if node["type"] == "wait_for_tracking":
            return branch_step(nodes, path, step["branch"], judge)
        continues = node.get("action", {}).get("on_error") == "continue"
        if step["status"] == "failed" and not continues:
            return None
        return next_step(nodes, path, judge)

    def _assert_is_of_node(self, step, node):
        if node["type"] != "action":
            assert step["action_type"] == node["type"]
            assert step["status"] != "failed", told(step)
            return
        config = {key: value for key, value in node["action"].items() if key != "delay"}
        assert step["action_config"] == config
        if step["status"] == "failed":
            answers = config.get("headers", {}).get("X-Answers", "")
            sent_before = config.get("on_unknown") == "fail" and self._world.excused[step["id"]]
            assert answers.endswith("400") or sent_before, told(step)

    def _assert_waits(self):
        clicks = {id: (at, is_tried) for id, at, is_tried in self._read_plain(_CLICKS)}
        assert all(is_tried for _, is_tried in clicks.values())
        for row in self._rows.values():
            if row["mode"] != "waitForTracking" or row["error"] == SUBJECT_GONE:
                continue
            link, deadline = row["tracking_link_id"], row["expires_at"]
            in_time = [at for at in self._world.clicked[link] if at < deadline]
            assert row["branch"] == ("clicked" if in_time else "expired"), told(row)
            if in_time:
                assert clicks[link][0] < deadline
            self._world.seen[row["branch"]] += 1

    def _assert_effects(self):
        """Each message and record is there as often as there is an action that tells it."""
        assert Counter(self._read_column(_MESSAGES)) == self._told("notify", "message")
        titles = Counter(self._read_column(_RECORDS))
        told = Counter()
        for row in self._done("create_record"):
            told[self._text(row, row["action_config"]["data"]["title"])] += 1
        assert titles == told

    def _told(self, kind, key):
        told = Counter()
        for row in self._done(kind):
            if row["branch"] != "expired":
                told[self._text(row, row["action_config"][key])] += 1
        return told

    def _done(self, kind):
        return [
            row
            for row in self._rows.values()
            if row["action_type"] == kind and row["status"] == "done"
        ]

    def _text(self, row, template):
        execution = self._executions.get(row["execution_id"])
        event = row["context"]["event"] if execution is None else execution["context"]
        return template.replace(TELLING, str(event["n"]))

    def _assert_calls(self):
        """Each call goes under one key, and again only across a death in its midst, or if asked."""
        expected = defaultdict(list)
        for row in self._rows.values():
            if row["action_type"] == "api_call":
                expected[self._text(row, row["action_config"]["body"])].append(row)
        sent = defaultdict(lambda: defaultdict(list))
        for request in self._world.stage.receiver.requests:
            delivery = int(request.headers["duebook-delivery"])
            sent[request.body.decode()][request.headers["idempotency-key"]].append(delivery)
        assert sent.keys() <= expected.keys()
        for text, rows in expected.items():
            keys = sent[text]
            self._assert_sent(rows, sorted(keys.values(), key=len))

    def _assert_sent(self, rows, deliveries):
        """Of equal texts one cannot tell which action's key it is: hold the few against the few."""
        ranges = sorted(self._times_sent(row) for row in rows)
        unsent = len(rows) - len(deliveries)
        counts = [0] * unsent + [len(one) for one in deliveries]
        assert unsent >= 0, (deliveries, *map(told, rows))
        for count, (least, most) in zip(counts, ranges, strict=True):
            assert least <= count <= most, (counts, ranges, *map(told, rows))
        for one in deliveries:  # who stood still over a call makes it behind the one that took over
            assert len(set(one)) == len(one), one

    def _times_sent(self, row):
        config = row["action_config"]
        answers = len(config["headers"]["X-Answers"].split())
        excused = self._world.excused[row["id"]]
        if row["error"] == SUBJECT_GONE:  # it may have been sent before
            return 0, answers + excused
        if config.get("on_unknown") == "fail":
            is_unknown = row["status"] == "failed" and row["error"] is not None and excused
            return (0 if is_unknown else answers), answers
        return answers, answers + excused

    def _read(self, statement):
        with self._conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, [self._world.tenant_id]).fetchall()

    def _read_plain(self, statement):
        return self._conn.execute(statement, [self._world.tenant_id]).fetchall()

    def _read_column(self, statement):
        return [value for (value,) in self._read_plain(statement)]


def told(row):
    """Return of a row what tells why it is not as it must be."""
    names = ("id", "action_type", "workflow_node_path", "status", "branch", "error", "starts")
    return tuple(row[name] for name in names)
