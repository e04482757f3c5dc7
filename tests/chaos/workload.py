"""What is asked of the installation during a run, and what has to come of it.

Every identity has a tag of its own, which its effects carry. What is sent is sent until it is
taken, under one Idempotency-Key, as a careful client would.
"""

import itertools
import json
import math
import random
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import urllib3

from tests.chaos.evidence import Expected
from tests.e2e.installation import Workspace, notify, scheduled

# How the identities are shared out, in hundredths. Windows of clocks come on top.
SHARES = {
    "date": 38,  # a date comes: a message, a call, a record
    "record": 14,  # a record is made: a message, a call
    "event": 12,  # an event: a message, and a call some seconds later
    "wait": 9,  # a workflow: a message, a wait for a click, one of two branches
    "staged": 8,  # a record is proposed, approved and applied
    "drip": 6,  # overdue at a save that lets them drip: a message
    "once": 4,  # a call that must not be sent twice
    "slot": 3,  # a slot of a roster
    "consume": 3,  # overdue at a save that consumes them: nothing
    "refused": 2,  # a call that is refused
    "gone": 1,  # a delayed call that is cancelled
}
_GONE_SECONDS = 3600
_CHUNK = 40
_SENDERS = 4
_CALL_SECONDS = 10.0
_TABLES = "/tenant/custom-tables/tables"
_EFFECTS = {
    "date": {"message": 1, "call": 1, "made": 1},
    "record": {"message": 1, "call": 1},
    "event": {"message": 1, "call": 1},
    "wait": {"ask": 1, "branch": 1},
    "staged": {"proposed": 1},
    "drip": {"message": 1},
    "once": {"call": 1},
    "slot": {"slots": 1},
    "consume": {},
    "refused": {"call": 1},
    "gone": {},
}


class _Ended(Exception):
    """The run is over, and what was about to be sent need not be."""


class Workload:
    """Sends what a run asks for and knows what it should lead to.

    ``waits``: the seconds of a delay, and those within which a link is to be clicked.
    """

    def __init__(self, *, seed, identities, seconds, waits, world, receiver, timeline):
        self._random = random.Random(seed)
        self._seconds = seconds
        self._delay_seconds, self._wait_seconds = waits
        self._world = world
        self._receiver = receiver
        self._timeline = timeline
        self.expected = []
        self.clicked_at = {}
        self.troubles = []
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._threads = []
        self._pool = urllib3.PoolManager(maxsize=2 * _SENDERS)
        self.tags = {
            kind: [f"{kind}-{number:06}" for number in range(round(identities * share / 100))]
            for kind, share in SHARES.items()
        }

    # Before anything strikes

    def author(self):
        """Make tables, triggers, rules and workflow, and store what is overdue at their save."""
        workspace = self._workspace = Workspace(self._world.installation)
        self.rooms = {name: str(uuid4()) for name in ("messages", "asked", "branches", "windows")}
        self._token = self._world.installation.environment["DUEBOOK_TOKEN"]
        self._contact = workspace.call("POST", "/v1/line-users", {"external_id": "contact"})["id"]
        table = {
            "made": workspace.make_table("made", tag="text"),
            "dates": workspace.make_table("dates", tag="text", due="datetime"),
            "records": workspace.make_table("records", tag="text"),
            "orders": workspace.make_table("orders", tag="text"),
            "proposed": workspace.make_table("proposed", tag="text"),
            "drips": workspace.make_table("drips", tag="text", due="datetime"),
            "consumes": workspace.make_table("consumes", tag="text", due="datetime"),
            "clocks": workspace.make_table("clocks", tag="text"),
        }
        self._tables = table
        workspace.call("PATCH", f"{_TABLES}/{table['proposed']}", {"approval": "required"})
        self._author_triggers(workspace, table)
        self._author_rules(workspace)
        self._author_slots(workspace)
        self._author_backlogs(workspace, table)

    def _author_triggers(self, workspace, table):
        due = {"type": "date_column_reached", "column": "due"}
        create = {"type": "create_record", "table_id": table["made"], "data": {"tag": "$row.tag"}}
        workspace.set_triggers(
            table["dates"],
            scheduled(due, self._message("$row.tag"), self._call("$row.tag"), create),
        )
        workspace.set_triggers(
            table["records"],
            {
                "on": "record_created",
                "actions": [self._message("$row.tag"), self._call("$row.tag")],
            },
        )
        propose = {**create, "table_id": table["proposed"]}
        workspace.set_triggers(table["orders"], {"on": "record_created", "actions": [propose]})
        window = notify("window $trigger.name/$run.scheduled_for", chatroom=self.rooms["windows"])
        clocks = [
            {"type": "interval", "every_seconds": 60},
            {"type": "cron", "expression": "* * * * *"},
        ]
        workspace.set_triggers(
            table["clocks"],
            *(
                scheduled(clock, window, name=f"{clock['type']}-{number}")
                for clock in clocks
                for number in range(5)
            ),
        )

    def _author_rules(self, workspace):
        who = "$event.tag"
        delayed = {**self._call(who), "delay": {"seconds": self._delay_seconds}}
        self._add_rule("event", self._message(who), delayed)
        self._add_rule("once", {**self._call(who), "on_unknown": "fail"})
        self._add_rule("refused", self._call(who, "refuse"))
        self._add_rule("gone", {**self._call(who), "delay": {"seconds": _GONE_SECONDS}})
        told = [
            _step(notify(f"branch {who} {branch}", chatroom=self.rooms["branches"]))
            for branch in ("clicked", "expired")
        ]
        nodes = [
            _step(notify(f"ask {who} $link.offer", chatroom=self.rooms["asked"])),
            {
                "type": "wait_for_tracking",
                "seconds": self._wait_seconds,
                "link": "offer",
                "target_url": "https://example.com/offer",
                "clicked": told[:1],
                "not_clicked": told[1:],
            },
        ]
        workspace.call("POST", "/v1/workflows", {"name": "ask", "nodes": nodes})
        self._add_rule("wait", {"type": "start_workflow", "workflow": "ask"})

    def _add_rule(self, event, *actions):
        rule = {"name": event, "event": event, "actions": list(actions)}
        self._workspace.call("POST", "/v1/trigger-rules", rule)

    def _author_slots(self, workspace):
        days = {"tag": "text", "day": "date", "start": "text", "end": "text"}
        roster = workspace.make_table("roster", **days)
        times = {"tag": "text", "start": "datetime", "end": "datetime"}
        columns = [{"name": name, "type": type} for name, type in times.items()]
        columns.append({"name": "status", "type": "select", "options": ["open", "booked"]})
        slots = workspace.call("POST", _TABLES, {"name": "slots", "columns": columns})["id"]
        tomorrow = str((datetime.now(UTC) + timedelta(days=1)).date())
        lines = [
            {"tag": tag, "day": tomorrow, "start": "09:00", "end": "09:30"}
            for tag in self.tags["slot"]
        ]
        self._upload(roster, lines, key="roster")
        action = {
            "type": "materialize_slots",
            "roster": {
                "table_id": roster,
                "resource": "tag",
                "date": "day",
                "start": "start",
                "end": "end",
            },
            "target": {
                "table_id": slots,
                "resource": "tag",
                "start": "start",
                "end": "end",
                "status": "status",
            },
            "slot_minutes": 30,
            "horizon_days": 3,
        }
        workspace.set_triggers(roster, scheduled({"type": "daily", "at": "00:00"}, action))
        self._expect("slot", self.tags["slot"])

    def _author_backlogs(self, workspace, table):
        due = {"type": "date_column_reached", "column": "due"}
        for kind in ("drip", "consume"):
            rows = [{"tag": tag, "due": "2026-01-01 09:00"} for tag in self.tags[kind]]
            self._upload(table[f"{kind}s"], rows, key=kind)
            per_minute = math.ceil(len(rows) / max(self._seconds / 60 - 0.5, 0.5))
            query = "consume" if kind == "consume" else f"drip&per_minute={max(per_minute, 1)}"
            triggers = {"triggers": [scheduled(due, self._message("$row.tag"))]}
            path = f"{_TABLES}/{table[f'{kind}s']}/triggers?on_existing={query}"
            workspace.call("PUT", path, triggers)
            self._expect(kind, self.tags[kind])

    # While faults strike

    def begin(self):
        """Send everything else, spread over the time."""
        self._began_at = time.time()
        sendings = [
            *self._uploads(),
            *self._singles("record", self._send_record),
            *self._singles("staged", self._send_order),
            *(
                sending
                for kind in ("event", "once", "refused", "wait", "gone")
                for sending in self._singles(kind, self._send_event)
            ),
        ]
        self._sendings = iter(sorted(sendings, key=lambda sending: sending[0]))
        for task in (*itertools.repeat(self._send_all, _SENDERS), self._click_all, self._approve):
            thread = threading.Thread(target=self._run, args=(task,))
            self._threads.append(thread)
            thread.start()

    def finish_sending(self, seconds):
        """Wait until everything was sent, so long at most."""
        deadline = time.time() + seconds
        for thread in self._threads[:_SENDERS]:
            thread.join(max(deadline - time.time(), 0))
            if thread.is_alive():
                self.troubles.append("not everything could be sent")

    def stop(self):
        """Send nothing more."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, task):
        try:
            task()
        except _Ended:
            return
        except Exception as error:
            self.troubles.append(f"workload: {error!r}")
            self._timeline.write("trouble", self.troubles[-1])

    def _singles(self, kind, send):
        return [
            (self._random.uniform(0, 0.9) * self._seconds, send, (kind, tag))
            for tag in self.tags[kind]
        ]

    def _uploads(self):
        """Dates in chunks: due in one of the minutes that begin during the run, or overdue."""
        tags = self.tags["date"]
        for begin in range(0, len(tags), _CHUNK):
            chunk = tags[begin : begin + _CHUNK]
            at = self._random.uniform(0, 0.6) * self._seconds
            minutes = [
                max(int((at + self._random.uniform(-60, self._seconds * 0.9 - at)) / 60), 0)
                for _ in chunk
            ]
            yield at, self._send_dates, (chunk, minutes)

    def _send_all(self):
        while True:
            with self._lock:
                sending = next(self._sendings, None)
            if sending is None:
                return
            at, send, arguments = sending
            if self._end.wait(max(self._began_at + at - time.time(), 0)):
                return
            send(*arguments)

    def _send_dates(self, tags, minutes):
        first = datetime.fromtimestamp(self._began_at, UTC).replace(second=0, microsecond=0)
        dues = [first + timedelta(minutes=minute) for minute in minutes]
        rows = [
            {"tag": tag, "due": due.strftime("%Y-%m-%d %H:%M")}
            for tag, due in zip(tags, dues, strict=True)
        ]
        for tag, due in zip(tags, dues, strict=True):
            self._expect("date", [tag], due_at=due.timestamp())
        self._upload(self._tables["dates"], rows, key=tags[0])

    def _send_record(self, kind, tag):
        self._expect(kind, [tag])
        self._post(f"{_TABLES}/{self._tables['records']}/records", {"data": {"tag": tag}}, key=tag)

    def _send_order(self, kind, tag):
        self._expect(kind, [tag])
        self._post(f"{_TABLES}/{self._tables['orders']}/records", {"data": {"tag": tag}}, key=tag)

    def _send_event(self, kind, tag):
        fate = {"once": "once", "refused": "refused", "gone": "cancelled"}.get(kind, "never")
        self._expect(kind, [tag], fate=fate)
        event = {"name": kind, "line_user_id": self._contact, "data": {"tag": tag}}
        taken = self._post("/v1/events", {**event, "idempotency_key": tag}, key=tag)
        if kind == "gone":
            for id in taken["scheduled_action_ids"]:
                self._post(f"/v1/scheduled-actions/{id}/cancel", {}, also=(409,))

    def _approve(self):
        """Approve what waits for it, every other second."""
        path = f"{_TABLES}/{self._tables['proposed']}/staged-changes/approve"
        while not self._end.wait(2):
            self._post(path, {})

    def _click_all(self):
        """Follow every other link, some at once, some near their deadline, some too late."""
        seen, due = set(), []
        path = f"/v1/chatrooms/{self.rooms['asked']}/messages?limit=200"
        while not self._end.wait(0.5):
            now = time.time()
            for item in self._get(path)["items"]:
                _, tag, url = item["message"].split(" ")
                if tag not in seen and int(tag[-6:]) % 2:
                    due.append((now + self._random.uniform(0, self._wait_seconds + 2), tag, url))
                seen.add(tag)
            for click in [one for one in due if one[0] <= now]:
                due.remove(click)
                self._click(*click[1:])

    def _click(self, tag, url):
        while not self._end.is_set():
            try:
                answer = self._pool.request(
                    "GET", url, redirect=False, retries=False, timeout=_CALL_SECONDS
                )
            except urllib3.exceptions.HTTPError:
                continue
            if answer.status == 302:
                self.clicked_at[tag] = time.time()
                return
            self._end.wait(0.2)

    # What is sent

    def _message(self, tag):
        return notify(f"message {tag}", chatroom=self.rooms["messages"])

    def _call(self, tag, path="take"):
        url = f"{self._receiver.url}/{path}/{tag}"
        return {"type": "api_call", "method": "POST", "url": url, "body": {"tag": tag}}

    def _expect(self, kind, tags, *, due_at=0.0, fate="never"):
        """Note what is to come of identities that are about to be sent."""
        not_before = dict.fromkeys(_EFFECTS[kind], due_at)
        if kind == "event":
            not_before["call"] = time.time() + self._delay_seconds
        self.expected += [
            Expected(tag=tag, effects=_EFFECTS[kind], not_before=not_before, fate=fate)
            for tag in tags
        ]

    def _upload(self, table, rows, *, key):
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = f"{_TABLES}/{table}/records/bulk"
        told = self._send("POST", path, lines, media="application/x-ndjson", key=key)
        assert told["refused"] == 0, told

    def _post(self, path, body, *, key=None, also=()):
        return self._send("POST", path, json.dumps(body).encode(), key=key, also=also)

    def _get(self, path):
        return self._send("GET", path, None)

    def _send(self, method, path, body, *, media="application/json", key=None, also=()):
        """Send until it is taken."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = media
        if key is not None:
            headers["Idempotency-Key"] = key
        while True:
            try:
                answer = self._pool.request(
                    method,
                    self._world.installation.api_url + path,
                    body=body,
                    headers=headers,
                    retries=False,
                    timeout=_CALL_SECONDS,
                )
            except urllib3.exceptions.HTTPError:
                answer = None
            if answer is not None and (answer.status < 300 or answer.status in also):
                return json.loads(answer.data) if answer.data else None
            if answer is not None and 400 <= answer.status < 500 and answer.status != 409:
                raise RuntimeError(f"{method} {path}: {answer.status} {answer.data.decode()}")
            if self._end.wait(0.2):
                raise _Ended


def _step(action):
    return {"type": "action", "action": action}
