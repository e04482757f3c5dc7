"""A workspace in which a script happens, by the product's own functions, and what was seen of it.

Time is moved by editing rows. What has ended, and which branch was taken, is looked at after each
happening: neither may ever change.
"""

import secrets
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial

from psycopg.errors import LockNotAvailable
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.queries import tracking, workflows
from shared.queries.line_users import delete_line_user, find_line_user
from shared.tracking.click_store import PostgresClicks
from shared.usecases.announce import recover
from shared.usecases.manage_line_users import LineUserChange, alter_line_user
from shared.usecases.take_event import NewEvent, settle, take_event
from shared.usecases.tenant_limits import WaitingLimit
from shared.usecases.unlock_wait import sweep_clicks, take_click
from tests.builders_db import LONG_AGO, insert_table, insert_tenant
from tests.builders_delayed import insert_line_user
from tests.builders_rules import insert_rule
from tests.integration.worker.runs import notify
from tests.integration.worker.waits import TARGET
from tests.integration.workflows import scripts
from tests.integration.workflows.mortal import Killed
from tests.integration.workflows.trees import CHILD, HOUR, labelled
from tests.integration.workflows.workers import announced

CLICKS = PostgresClicks()
MAIN = "main"
_EVENT = "bought"
_MOST_LOST = 4  # the fifth lost worker would end a row
_MOST_ROUNDS = 200

_ROWS = "SELECT * FROM scheduled_action WHERE tenant_id = %s ORDER BY id"
_LINKS = "SELECT id FROM tracking_link WHERE tenant_id = %s ORDER BY id"
# A deadline that has passed stays: a click that was late for it would not be late any more.
_PASS = """
UPDATE scheduled_action AS action
SET execute_at = least(execute_at, clock.at),
    expires_at = CASE
        WHEN branch IS NULL AND expires_at > clock.at THEN clock.at
        ELSE expires_at
    END,
    next_attempt_at = least(next_attempt_at, clock.at),
    announce_at = clock.at
FROM (SELECT clock_timestamp() AS at) AS clock
WHERE action.id = ANY(ARRAY(
    SELECT id FROM scheduled_action
    WHERE id = ANY(%s) AND status = 'pending' FOR UPDATE SKIP LOCKED
))
"""
_FREEZE = """
UPDATE scheduled_action SET leased_until = clock_timestamp() - interval '1 s'
WHERE id = ANY(ARRAY(
    SELECT id FROM scheduled_action
    WHERE worker_id = %s AND status = 'processing' FOR UPDATE SKIP LOCKED
))
"""
_OPEN = """
SELECT id FROM scheduled_action
WHERE worker_id = %s AND status = 'processing' AND open_action IS NOT NULL
"""
_OVERLOOKED = """
SELECT wait.id
FROM scheduled_action AS wait
JOIN tracking_click AS click ON click.link_id = wait.tracking_link_id
WHERE wait.tenant_id = %s AND wait.status = 'pending' AND wait.branch IS NULL
    AND click.first_clicked_at < wait.expires_at
"""


class World:
    """One workspace, its script, and what is known of it beside the rows.

    ``levels``: since when a contact had which level. ``clicked``: when links were clicked whose
    waits had not expired yet. ``excused``: how often a worker was lost in the midst of an action's
    call. ``seen`` counts what happened, ``steps`` the steps before which something could.
    """

    def __init__(self, stage, script):
        self.stage = stage
        self.conn = stage.conn
        self.script = script
        self.seen = Counter()
        self.tenant_id = insert_tenant(self.conn)
        self.told = insert_table(self.conn, tenant_id=self.tenant_id)
        self.contacts = [
            insert_line_user(
                self.conn, tenant_id=self.tenant_id, attributes=Jsonb({"level": number})
            )
            for number in range(1, scripts.CONTACTS + 1)
        ]
        self.levels = {id: [(LONG_AGO, number)] for number, id in enumerate(self.contacts, start=1)}
        self.forgotten = {}
        self.clicked = defaultdict(list)
        self.excused = Counter()
        self.events = []
        self._untaken = []
        self._known = {}
        self._strikes = iter(script.strikes)
        self._lost = 0
        self.steps = 0
        self._author()

    def play(self):
        """Let everything happen, and go on until nothing is left to be done."""
        self._arm()
        for happening in self.script.happenings:
            self._happen(happening)
        while self._untaken:
            with suppress(Killed):
                self._take(self._untaken.pop())
        self._settle()
        self.steps = len(self.stage.points.passed)
        self.stage.points.disarm()
        self._happen(scripts.Sweep())

    def _arm(self):
        """Let the next strike come."""
        strike = next(self._strikes, None)
        if strike is not None:
            fate = partial(self._befall, strike.fate)
            self.stage.points.arm(strike.steps, strike.kind, fate)

    def _settle(self):
        """Work until every action has ended: time passes, and who has died is found out."""
        for _ in range(_MOST_ROUNDS):
            states = {row["status"] for row in self.rows()}
            if not states & {"pending", "processing"}:
                return
            if "processing" in states:
                self._happen(scripts.Sweep())
            self._happen(scripts.Pass(None))
            self._happen(scripts.Work(4, "due"))
        unfinished = [row["id"] for row in self.rows() if row["finished_at"] is None]
        raise AssertionError(f"what does not end: {unfinished}")

    def rows(self):
        """Return all scheduled actions."""
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(_ROWS, [self.tenant_id]).fetchall()

    def contact_at(self, contact_id, at):
        """Return the contact as it was then, None without one."""
        if contact_id is None or self.forgotten.get(contact_id, at) < at:
            return None
        levels = [level for since, level in self.levels[contact_id] if since <= at]
        found = self.stage.find_contact(self.tenant_id, contact_id)
        attributes = {} if levels[-1] is None else {"level": levels[-1]}
        return replace(found, attributes=attributes)

    def _author(self):
        self.child = self._store(CHILD, self.script.child)
        self.workflow = self._store(MAIN, self.script.nodes)
        delay = {
            "mode": "waitForTracking",
            "expiresSeconds": HOUR,
            "trackingLink": "$event.link",
        }
        if self.script.expires:
            later = notify("later $event.n", delay={"seconds": HOUR})
            delay["on_expire"] = [notify("late $event.n"), later]
        actions = [
            {"type": "start_workflow", "workflow": MAIN},
            notify("plain $event.n", delay=delay),
        ]
        insert_rule(self.conn, self.tenant_id, event=_EVENT, actions=actions)

    def _store(self, name, nodes, version=1):
        return workflows.insert_workflow(
            self.conn,
            tenant_id=self.tenant_id,
            name=name,
            nodes=self._labelled(name, nodes, version),
            now=LONG_AGO,
        )

    def _labelled(self, name, nodes, version):
        table_id, url = self.told.id, self.stage.receiver.url
        return labelled(nodes, name=f"{name}{version}", table_id=table_id, url=url)

    def _happen(self, happening):
        with suppress(Killed):
            self._do(happening)
        self._look()

    def _do(self, happening):
        match happening:
            case scripts.Event(contact=contact, vip=vip):
                self._take(self._new_event(contact, vip))
            case scripts.Work(limit=limit, way=way):
                self._work(limit, way)
            case scripts.Click():
                self._click(happening)
            case scripts.Pass(which=which):
                ids = [row["id"] for row in self.rows() if row["status"] == "pending"]
                self._pass(ids if which is None or not ids else [ids[which % len(ids)]])
            case scripts.Sweep():
                self._sweep()
            case _:
                self._edit(happening)

    def _edit(self, happening):
        match happening:
            case scripts.Level(contact=contact, level=level):
                self._set_level(self.contacts[contact], level)
            case scripts.Forget(contact=contact):
                self._forget(self.contacts[contact])
            case scripts.NewVersion():
                self._save_anew()

    def _work(self, limit, way):
        worker = self.stage.worker
        if way == "announced":
            worker.take_announced(self._announced(limit))
        else:
            worker.take_due(limit=limit, fairly=way == "fairly")

    def _announced(self, limit):
        """Return the messages of a scanner, which may die over it."""
        messages = []
        with suppress(Killed):
            messages.extend(announced(self.stage.scanner.connect_once(), limit=limit))
        return messages

    def _new_event(self, contact, vip):
        """Return an event of its own number, with a link of its own for the plain wait."""
        number = len(self.events)
        token = link_token(secrets.token_bytes(TOKEN_BYTES))
        tracking.insert_link(
            self.conn, tenant_id=self.tenant_id, token=token, target_url=TARGET, now=LONG_AGO
        )
        contact_id = None if contact is None else self.contacts[contact]
        if contact_id in self.forgotten:
            contact_id = None
        event = NewEvent(
            tenant_id=self.tenant_id,
            name=_EVENT,
            line_user_id=contact_id,
            data={"n": number, "vip": vip, "link": token},
            key=f"key {number}",
        )
        self.events.append(event)
        return event

    def _take(self, event):
        """Send an event; without an answer it is sent again, under its key."""
        self._untaken.append(event)
        if event.line_user_id in self.forgotten:
            self._untaken.remove(event)
            return
        api = self.stage.api.connect_once()
        now = server_now(api)
        taken = take_event(api, event, clicks=CLICKS, waiting=WaitingLimit(), now=now)
        settle(api, event, taken, clicks=CLICKS)
        self._untaken.remove(event)

    def _click(self, click):
        ids = [id for (id,) in self.conn.execute(_LINKS, [self.tenant_id])]
        if not ids:
            return
        link = self.stage.find_link(self.tenant_id, ids[click.link % len(ids)])
        clicked_at = self._moment(link, click.moment)
        try:
            visitor = self.stage.visitor.connect_once()
            take_click(visitor, link, clicked_at=clicked_at, clicks=CLICKS)
        finally:
            wait = self._wait_of(link)
            durable = tracking.find_click(self.conn, link.id)
            if durable is not None and (wait is None or wait["branch"] != "expired"):
                self.clicked[link.id].append(durable)
                self.seen["clicked before any wait" if wait is None else "clicked a wait"] += 1

    def _moment(self, link, moment):
        wait = self._wait_of(link)
        if moment == "now" or wait is None:
            return server_now(self.conn)
        self._pass([wait["id"]])
        deadline = self._wait_of(link)["expires_at"]
        if moment == "at":
            self.seen["clicked at the deadline"] += 1
            return deadline
        self.seen["clicked just before the deadline"] += 1
        return deadline - deadline.resolution

    def _wait_of(self, link):
        waits = [row for row in self.rows() if row["tracking_link_id"] == link.id]
        assert len(waits) <= 1
        return waits[0] if waits else None

    def _pass(self, ids):
        self.conn.execute(_PASS, [ids])

    def _sweep(self):
        scanner = self.stage.scanner.connect_once()
        recover(scanner)
        sweep_clicks(scanner, limit=100)
        overlooked = self.conn.execute(_OVERLOOKED, [self.tenant_id]).fetchall()
        assert overlooked == [], "a click was swept, and its wait still waits"

    def _set_level(self, contact_id, level):
        if contact_id in self.forgotten:
            return
        now = server_now(self.conn)
        change = LineUserChange(
            external_id=None, has_display_name=False, display_name=None, attributes={"level": level}
        )
        alter_line_user(
            self.conn, tenant_id=self.tenant_id, line_user_id=contact_id, change=change, now=now
        )
        self.levels[contact_id].append((now, level))

    def _forget(self, contact_id):
        if contact_id in self.forgotten:
            return
        found = find_line_user(self.conn, self.tenant_id, contact_id)
        self.stage.remember(found)
        now = server_now(self.conn)
        delete_line_user(self.conn, self.tenant_id, contact_id, now=now)
        self.forgotten[contact_id] = now

    def _save_anew(self):
        version = self.workflow.version + 1
        nodes = self.script.edited if version % 2 == 0 else self.script.nodes
        changed = replace(self.workflow, nodes=self._labelled(MAIN, nodes, version))
        self.workflow = workflows.update_workflow(self.conn, changed, now=server_now(self.conn))

    def _befall(self, fate, process):
        """Let something happen to a process, or beside it while it stands still."""
        self.seen[type(fate).__name__] += 1
        match fate:
            case scripts.Kill() if self._lost < _MOST_LOST:
                self._lost += 1
                self._excuse(process)
                process.die()
            case scripts.Steal(limit=limit) if self._lost < _MOST_LOST:
                self._lost += 1
                self._steal(process, limit)
            case scripts.Click():
                self._click_beside(process, fate)
        self._look()
        self._arm()

    def _steal(self, process, limit):
        victim = self.stage.worker
        if process is not victim.process:
            return
        self._excuse(process)
        self.conn.execute(_FREEZE, [victim.id])
        recover(self.conn)
        self.stage.thief.take_due(limit=limit, fairly=False)

    def _click_beside(self, process, click):
        """Click, unless that is what stands still; a lock in the way may refuse the click."""
        if process is not self.stage.visitor:
            with suppress(LockNotAvailable):
                self._click(click)

    def _excuse(self, process):
        """Note what may be called again: its call may have been sent, and has no receipt."""
        if process is self.stage.worker.process:
            self.excused.update(id for (id,) in self.conn.execute(_OPEN, [self.stage.worker.id]))

    def _look(self):
        """See what has ended, and what was decided: that stays so."""
        for row in self.rows():
            before = self._known.get(row["id"])
            if before is not None and before["finished_at"] is not None:
                assert row == before, "what has ended was touched again"
            if before is not None and before["branch"] is not None:
                assert row["branch"] == before["branch"], "a wait took another branch"
            self._known[row["id"]] = row
