"""The story of the source: a purchase, three days, a watched link, and a second message or none.

Told for any number of contacts; the tests tell it for hundreds, a benchmark for ten thousand. Time
is moved by editing the rows, as a person could, and never by waiting for it.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import urllib3

THREE_DAYS = 3 * 86_400
ONE_DAY = 86_400
TARGET = "https://shop.example/offer"

_CALLERS = 8

_BRING_FORWARD = """
UPDATE scheduled_action
SET execute_at = clock_timestamp(),
    next_attempt_at = clock_timestamp(),
    announce_at = clock_timestamp()
WHERE status = 'pending' AND mode = 'normal' AND execute_at > clock_timestamp() + interval '1 day'
"""
# The deadline of a wait is both of its instants.
_END_WAITS = """
UPDATE scheduled_action AS wait
SET execute_at = later.at,
    expires_at = later.at,
    next_attempt_at = later.at,
    announce_at = later.at
FROM (SELECT clock_timestamp() + make_interval(secs => %(seconds)s) AS at) AS later,
    line_user AS contact
WHERE contact.id = wait.line_user_id
    AND contact.external_id = ANY(%(contacts)s)
    AND wait.status = 'pending'
    AND wait.mode = 'waitForTracking'
    AND wait.branch IS NULL
"""
_UNFINISHED = """
SELECT
    count(*) FILTER (WHERE mode = 'waitForTracking'),
    count(*) FILTER (WHERE mode = 'normal')
FROM scheduled_action
WHERE status IN ('pending', 'processing')
"""
_BY_STATUS = "SELECT action_type, status, count(*) FROM scheduled_action GROUP BY 1, 2"
_REASONS = "SELECT DISTINCT error FROM scheduled_action WHERE status = 'cancelled'"
_MESSAGES = "SELECT message FROM chat_message WHERE chatroom_id = %s"
_WAITS = """
SELECT contact.external_id, wait.branch, wait.expires_at, click.first_clicked_at
FROM scheduled_action AS wait
JOIN line_user AS contact ON contact.id = wait.line_user_id
LEFT JOIN tracking_click AS click ON click.link_id = wait.tracking_link_id
WHERE wait.mode = 'waitForTracking'
"""


class Story:
    """Contacts who buy, and what becomes of them."""

    def __init__(self, installation, workspace, conn, *, contacts):
        self.installation = installation
        self.workspace = workspace
        self.conn = conn
        self.contacts = [f"contact {number:05}" for number in range(contacts)]
        self.bought_again = self.contacts[::10]
        self.asked = [name for name in self.contacts if name not in set(self.bought_again)]
        third = len(self.asked) // 3
        self.early = self.asked[:third]
        self.racing = self.asked[third : third + len(self.asked) // 10]
        self.silent = self.asked[third + len(self.racing) :]
        self.rooms = {name: str(uuid4()) for name in ("asked", "thanked", "second")}

    def author(self):
        """Store the workflow, and the rule that starts it three days after a first purchase."""
        who = "$line_user.external_id"
        nodes = [
            _step(self._notify("asked", f"{who} $link.offer")),
            {
                "type": "wait_for_tracking",
                "seconds": ONE_DAY,
                "link": "offer",
                "target_url": TARGET,
                "clicked": [_step(self._notify("thanked", who))],
                "not_clicked": [_step(self._notify("second", who))],
            },
        ]
        self.workspace.call("POST", "/v1/workflows", {"name": "follow-up", "nodes": nodes})
        delay = {"seconds": THREE_DAYS, "reEvaluateConditions": True}
        rule = {
            "name": "after a purchase",
            "event": "purchase",
            "conditions": [{"column": "line_user.purchases", "op": "eq", "value": 1}],
            "actions": [{"type": "start_workflow", "workflow": "follow-up", "delay": delay}],
        }
        self.workspace.call("POST", "/v1/trigger-rules", rule)

    def buy(self):
        """Register the contacts, each with a purchase; some buy again before the three days end."""
        again = set(self.bought_again)

        def one(name):
            contact = {"external_id": name, "attributes": {"purchases": 1}}
            id = self.workspace.call("POST", "/v1/line-users", contact)["id"]
            event = {"name": "purchase", "line_user_id": id, "data": {"order": name}}
            taken = self.workspace.call("POST", "/v1/events", event)
            assert len(taken["scheduled_action_ids"]) == 1
            if name in again:
                changed = {"attributes": {"purchases": 2}}
                self.workspace.call("PATCH", f"/v1/line-users/{id}", changed)

        _at_once(one, self.contacts)

    def let_three_days_pass(self):
        """Bring forward what waits for three days, and wait until everybody has been asked."""
        moved = self.conn.execute(_BRING_FORWARD).rowcount
        assert moved == len(self.contacts)
        self.installation.wait(self._all_wait_or_are_dismissed, every_seconds=0.5)

    def click_early(self):
        """Let a third of those who were asked click long before their deadline."""
        self._click(self.early)

    def click_at_the_deadline(self):
        """Let some click while their deadline comes, some before it and some after it."""
        self._end_waits(self.racing, seconds=0.3)
        self._click(self.racing)

    def let_the_day_end(self):
        """Bring the deadline of all others, and wait until nobody waits any more."""
        self._end_waits(self.silent, seconds=0.0)
        self.installation.wait(self._nobody_waits, every_seconds=0.5)

    def assert_exact(self):
        """Each contact took one branch, once, and the one that was due to it."""
        asked = Counter(line.rpartition(" ")[0] for line in self._told("asked"))
        thanked, second = Counter(self._told("thanked")), Counter(self._told("second"))
        assert asked == Counter(self.asked)
        assert thanked + second == Counter(self.asked)
        assert set(self.early) <= thanked.keys()
        assert set(self.silent) <= second.keys()
        for name, branch, expires_at, clicked_at in self._waiting():
            assert branch == ("clicked" if name in thanked else "expired")
            if branch == "clicked":
                assert clicked_at < expires_at
        counts = {(kind, status): n for kind, status, n in self.conn.execute(_BY_STATUS)}
        assert counts == {
            ("start_workflow", "done"): len(self.asked),
            ("start_workflow", "cancelled"): len(self.bought_again),
            ("notify", "done"): 2 * len(self.asked),
            ("wait_for_tracking", "done"): len(self.asked),
        }
        assert self.conn.execute(_REASONS).fetchall() == [("conditions no longer pass",)]
        assert self.installation.verify()["ok"]

    def _notify(self, room, message):
        return {"type": "notify", "chatroom_id": self.rooms[room], "message": message}

    def _all_wait_or_are_dismissed(self):
        return self.conn.execute(_UNFINISHED).fetchone() == (len(self.asked), 0)

    def _nobody_waits(self):
        return self.conn.execute(_UNFINISHED).fetchone() == (0, 0)

    def _told(self, room):
        return [message for (message,) in self.conn.execute(_MESSAGES, [self.rooms[room]])]

    def _waiting(self):
        return self.conn.execute(_WAITS).fetchall()

    def _end_waits(self, contacts, *, seconds):
        self.conn.execute(_END_WAITS, {"contacts": contacts, "seconds": seconds})

    def _click(self, contacts):
        links = dict(line.rsplit(" ", 1) for line in self._told("asked"))

        def one(name):
            answer = urllib3.request("GET", links[name], redirect=False, retries=False, timeout=30)
            assert (answer.status, answer.headers["Location"]) == (302, TARGET)

        _at_once(one, contacts)


def _step(action):
    return {"type": "action", "action": action}


def _at_once(function, items):
    with ThreadPoolExecutor(_CALLERS) as pool:
        list(pool.map(function, items))
