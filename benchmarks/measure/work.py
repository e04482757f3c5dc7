"""What people and events do to an installation, so many times in a turn."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice

import urllib3

from benchmarks.measure.seeds import NOTIFY
from services.cli.api import TABLES
from services.cli.chunks import MEDIA

# What costs little is done so many times as often.
BULK = 5
OVER, AHEAD = "2020-01-01 00:00", "2200-01-01 00:00"
SHORT_NOTIFY = {**NOTIFY, "message": "a message"}
COLUMNS = [
    {"name": "title", "type": "text"},
    {"name": "due", "type": "datetime"},
    {"name": "text", "type": "text"},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that is done ``count`` times in a turn, and the tables that keep a row of it."""

    name: str
    turn: Callable[[], None]
    count: int
    tables: tuple[str, ...] = ()


class Work:
    """All that people and events do to an installation."""

    def __init__(self, installation, count):
        self.installation = installation
        self.api = installation.api
        self.count = count
        self.serial = 0
        self.watched = None

    def steps(self):
        """Yield every kind of work."""
        yield from self.records()
        yield from self.runs()
        yield from self.delayed()
        yield from self.requests()

    def records(self):
        """Yield the steps of records and of their due values."""
        for length in (100, 1000, 10_000):
            table = self.table()
            yield self.upload(f"record of {length:,} bytes", table, length, ("record",))
        dated = [self.date_trigger(NOTIFY)]
        for name, triggers in (("a date ahead", dated), ("three dates ahead", dated * 3)):
            table = self.table(triggers=triggers)
            yield self.upload(
                f"record of 100 bytes, {name}",
                table,
                100,
                ("record", "due_value"),
                due=AHEAD,
            )

    def runs(self):
        """Yield the steps of runs: by date and by write, with an effect within and a call."""
        table = self.table(triggers=[self.date_trigger(NOTIFY)])
        tables = ("trigger_run", "occurrence", "chat_message")
        yield self.upload("record, run by date, notify", table, 100, tables, due=OVER)
        for name, action, tables in (
            ("notify", NOTIFY, ("trigger_run", "chat_message")),
            ("staged change", self.proposal(), ("trigger_run", "staged_change")),
            ("webhook", self.webhook(), ("trigger_run",)),
        ):
            yield self.run_by_write(name, action, tables)

    def run_by_write(self, name, action, tables=()):
        """Return a step of records that each fire a trigger; its table is then the one watched."""
        self.watched = self.table(triggers=[{"on": "record_created", "actions": [action]}])
        return self.upload(f"record, run by write, {name}", self.watched, 100, tables)

    def delayed(self):
        """Yield the steps of contacts, events, scheduled actions, workflows and links."""
        contact = self.call("POST", "/v1/line-users", {"external_id": "the contact"})["id"]
        yield self.posts("contact", "/v1/line-users", self.contact, ("line_user",))
        yield self.posts("event", "/v1/events", self.event("heard", contact), ("event",))
        both = ("event", "scheduled_action")
        for name, more, tables in (
            ("event, notify at once", {}, (*both, "chat_message")),
            ("event, notify in a day", {"delay": {"seconds": 86_400}}, both),
        ):
            rule = {"name": name, "event": name, "actions": [{**SHORT_NOTIFY, **more}]}
            self.call("POST", "/v1/trigger-rules", rule)
            yield self.posts(name, "/v1/events", self.event(name, contact), tables)
        node = {"type": "action", "action": SHORT_NOTIFY}
        workflow = self.call("POST", "/v1/workflows", {"name": "one step", "nodes": [node]})["id"]
        yield self.posts(
            "execution of one step",
            f"/v1/workflows/{workflow}/executions",
            lambda: {"line_user_id": contact, "context": {"order": 1}},
            ("workflow_execution", "scheduled_action", "chat_message"),
        )
        yield from self.links()

    def links(self):
        """Yield the steps of links that people click."""
        link = {"target_url": "https://example.com/an/offer/of/ours"}
        urls, visitor = [], urllib3.PoolManager()

        def make():
            for _ in range(self.count):
                urls.append(self.call("POST", "/v1/tracking-links", link)["url"])

        def click():
            for _ in range(self.count):
                assert visitor.request("GET", urls.pop(), redirect=False).status == 302

        yield self.step("tracking link", make, ("tracking_link",))
        yield self.step("click", click, ("tracking_click",))

    def requests(self):
        """Yield the steps of single requests."""
        table = self.table()
        records = f"{TABLES}/{table}/records"
        cells = {"data": {"title": "a title", "due": AHEAD}}
        yield self.posts("request: a record made", records, lambda: cells, ("record",))
        for name, path in (
            ("50 records", f"{records}?limit=50"),
            ("50 runs", f"{TABLES}/{self.watched}/trigger-runs?limit=50"),
            ("50 scheduled actions", "/v1/scheduled-actions?limit=50"),
            ("the schedule preview", f"{TABLES}/{self.watched}/triggers/schedule-preview"),
        ):
            yield self.step(f"request: {name}", self.gets(path))

    def step(self, name, turn, tables=()):
        """Return a step whose turn does as many as there were asked for."""
        return Step(name=name, turn=turn, count=self.count, tables=tables)

    def gets(self, path):
        """Return a turn that asks for a page."""

        def turn():
            for _ in range(self.count):
                self.call("GET", path)

        return turn

    def posts(self, name, path, body, tables):
        """Return a step of requests, until what they led to has come to its end."""

        def turn():
            for _ in range(self.count):
                self.call("POST", path, body())
            self.installation.wait_for_all()

        return self.step(name, turn, tables)

    def upload(self, name, table, length, tables, **cells):
        """Return a step of records, a thousand in an upload, and of what they lead to."""
        records = self.count * BULK

        def turn():
            self.send(table, records, length, cells)
            self.installation.wait_for_all()

        return Step(name=name, turn=turn, count=records, tables=tables)

    def leave(self, records):
        """Make records that are due, and wait for nothing."""
        self.send(self.table(triggers=[self.date_trigger(NOTIFY)]), records, 100, {"due": OVER})

    def send(self, table, records, length, cells):
        """Upload records, a thousand at a time."""
        path = f"{TABLES}/{table}/records/bulk"
        for start in range(0, records, 1000):
            lines = [self.record(length, cells) for _ in range(min(1000, records - start))]
            done = self.api.send(path, "".join(lines).encode(), media=MEDIA["jsonl"])
            assert done["refused"] == 0, done

    def record(self, length, cells):
        """Return a record as a line; its text is as long as it has to be, and nothing repeats."""
        self.serial += 1
        cells = {"title": f"record {self.serial}", **cells}
        cells["text"] = text(self.serial, length - len(json.dumps(cells)) - 12)
        return f"{json.dumps(cells)}\n"

    def burst(self, callers):
        """Let as many ask at once as may, so that every pool is as large as it becomes."""
        path = f"{TABLES}/{self.watched}/records?limit=50"
        with ThreadPoolExecutor(callers) as threads:
            list(threads.map(lambda _: self.call("GET", path), range(callers * 4)))

    def call(self, method, path, body=None):
        """Call the API; the answer has to be a good one."""
        return self.api.call(method, path, body=body)

    def table(self, *, triggers=(), **more):
        """Make a table and return its id."""
        self.serial += 1
        body = {"name": f"table {self.serial}", "columns": COLUMNS, **more}
        table = self.call("POST", TABLES, body)["id"]
        if triggers:
            self.call("PUT", f"{TABLES}/{table}/triggers", {"triggers": list(triggers)})
        return table

    def date_trigger(self, action):
        """Return a trigger at the date of a record."""
        return {
            "on": "schedule",
            "schedule": {"type": "date_column_reached", "column": "due"},
            "actions": [action],
        }

    def webhook(self):
        """Return an action that calls the receiver."""
        return {
            "type": "webhook",
            "url": f"http://127.0.0.1:{self.installation.receiver_port}/hook",
        }

    def proposal(self):
        """Return an action that proposes a record of a table that asks for approval."""
        table = self.table(approval="required")
        return {"type": "create_record", "table_id": table, "data": {"title": "$row.title"}}

    def contact(self):
        """Return a new contact."""
        self.serial += 1
        return {"external_id": f"contact {self.serial}", "attributes": {"city": "Berlin"}}

    def event(self, name, contact):
        """Return what makes events of a name and a contact, each under a key."""

        def make():
            self.serial += 1
            data = {"order": self.serial, "amount": 12}
            key = f"order {self.serial}"
            return {"name": name, "line_user_id": contact, "data": data, "idempotency_key": key}

        return make


def text(serial, length):
    """Return a text of this length, another one for each serial, that cannot be compressed."""
    blocks = (sha256(f"{serial}:{block}".encode()).hexdigest() for block in count())
    return "".join(islice(blocks, length // 64 + 1))[: max(length, 0)]
