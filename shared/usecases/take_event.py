"""Take an event: the rules that it matches schedule their actions, in one transaction (spec 3 §1).

Nothing is executed here. An action without a delay is due at once, and whoever claims it runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.delays import Delay, delay_of, without_delay
from shared.domain.event_rules import TriggerRule, conditions_hold
from shared.domain.events import copies_faults, data_faults, event_hash
from shared.domain.line_users import LineUser, cells
from shared.domain.scheduled_actions import NewAction
from shared.domain.strict_json import Json
from shared.domain.templates import TemplateContext, render, text_of
from shared.domain.tracking import is_link_token, token_in
from shared.effects.delays import Watched, after_schedule, record, timed, watch
from shared.errors import Conflict, Fault, InvalidInput, NotFound
from shared.queries import events
from shared.queries.events import TakenEvent
from shared.queries.line_users import find_line_user
from shared.queries.tenants import get_tenant
from shared.queries.tracking import find_link
from shared.queries.trigger_rules import list_enabled_rules
from shared.tracking.click_store import ClickStore
from shared.usecases.tenant_limits import WaitingLimit

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event as it was sent; ``key`` is the sender's own, under which it is taken once."""

    tenant_id: UUID
    name: str
    line_user_id: int | None
    data: Mapping[str, Json]
    key: str | None

    @property
    def hash(self) -> bytes:
        """What tells the same event from another under the same key."""
        return event_hash(name=self.name, line_user_id=self.line_user_id, data=self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An event that was taken, now or before, and the links for which its actions wait."""

    event: TakenEvent
    link_ids: tuple[int, ...] = ()


def take_event(
    conn: Connection,
    event: NewEvent,
    *,
    clicks: ClickStore,
    waiting: WaitingLimit,
    now: datetime,
) -> Taken:
    """Take an event and return it with what it led to; under a known key, what it led to then.

    One transaction; when that has committed, ``settle`` has to follow. Raises InvalidInput for data
    that is too large, by itself or in the copies that all actions keep, for a contact that the
    tenant does not have (``line_user_unknown``) and a link that a rule is to wait for and that is
    not there (``tracking_link_unknown``), Conflict ``idempotency_key_reused`` and, when it leads to
    something, ``scheduled_actions_too_many``, NotFound ``tenant_not_found``.
    """
    faults = data_faults(event.data)
    if faults:
        raise InvalidInput.of(faults)
    with conn.transaction():
        known = _taken_before(conn, event)
        if known is not None:
            return Taken(event=known)
        get_tenant(conn, event.tenant_id)
        line_user = _contact(conn, event)
        rules = _matching(conn, event, line_user)
        if faults := copies_faults(event.data, actions=sum(len(rule.actions) for rule in rules)):
            raise InvalidInput.of(faults)
        if rules:
            waiting.check(conn, event.tenant_id)
        event_id = _insert(conn, event, rules, now=now)
        if event_id is None:  # another transaction has just taken it
            known = _taken_before(conn, event)
            assert known is not None
            return Taken(event=known)
        story = _Story(event=event, event_id=event_id, line_user=line_user, now=now)
        return _schedule(conn, story, rules, clicks)


def settle(conn: Connection, event: NewEvent, taken: Taken, *, clicks: ClickStore) -> None:
    """Unlock what was clicked while the event was being taken; in no transaction, behind it."""
    for link_id in taken.link_ids:
        after_schedule(conn, tenant_id=event.tenant_id, link_id=link_id, clicks=clicks)


def _taken_before(conn: Connection, event: NewEvent) -> TakenEvent | None:
    known = None if event.key is None else events.find_event(conn, event.tenant_id, event.key)
    if known is not None and known.request_hash != event.hash:
        message = "the idempotency_key was used for another event"
        raise Conflict(message, code="idempotency_key_reused")
    return known


def _contact(conn: Connection, event: NewEvent) -> LineUser | None:
    if event.line_user_id is None:
        return None
    line_user = find_line_user(conn, event.tenant_id, event.line_user_id)
    if line_user is None:
        message = f"line_user_id names no contact of this tenant: {event.line_user_id}"
        fault = Fault(code="line_user_unknown", pointer="/line_user_id", message=message)
        raise InvalidInput.of([fault])
    return line_user


def _matching(conn: Connection, event: NewEvent, line_user: LineUser | None) -> list[TriggerRule]:
    return [
        rule
        for rule in list_enabled_rules(conn, event.tenant_id, event.name)
        if _holds(rule, event, line_user)
    ]


def _holds(rule: TriggerRule, event: NewEvent, line_user: LineUser | None) -> bool:
    """Tell whether a rule's conditions hold; of one that cannot be read they do not."""
    try:
        return conditions_hold(rule.conditions, event=event.data, line_user=line_user)
    except ValueError:
        _log.error("rule_unreadable", tenant_id=str(rule.tenant_id), rule_id=rule.id)
        return False


def _insert(
    conn: Connection, event: NewEvent, rules: list[TriggerRule], *, now: datetime
) -> int | None:
    return events.insert_event(
        conn,
        tenant_id=event.tenant_id,
        name=event.name,
        line_user_id=event.line_user_id,
        data=event.data,
        key=event.key,
        request_hash=event.hash,
        rule_ids=[rule.id for rule in rules],
        now=now,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """An event in the course of being taken: what its actions are told."""

    event: NewEvent
    event_id: int
    line_user: LineUser | None
    now: datetime

    def request(self, rule: TriggerRule, position: int) -> NewAction:
        """Return an action of a rule as if it had no delay."""
        config = rule.actions[position]
        return NewAction(
            tenant_id=self.event.tenant_id,
            origin_key=f"event:{self.event_id}:{rule.id}:{position}",
            execute_at=self.now,
            action_type=config["type"],
            action_config=without_delay(config),
            source_config={"when": rule.conditions},
            context={
                "event": self.event.data,
                "event_name": self.event.name,
                "rule_name": rule.name,
            },
            line_user_id=self.event.line_user_id,
            event_id=self.event_id,
            rule_id=rule.id,
        )

    def link_token(self, rule: TriggerRule, delay: Delay) -> str:
        """Return the token of the link that an action of a rule is to wait for."""
        template = TemplateContext(
            row=None,
            run_id=self.event_id,
            scheduled_for=self.now,
            trigger_name=rule.name,
            now=self.now,
            event=self.event.data,
            line_user={} if self.line_user is None else cells(self.line_user),
        )
        return text_of(render(delay.tracking_link, template))


def _schedule(
    conn: Connection, story: _Story, rules: list[TriggerRule], clicks: ClickStore
) -> Taken:
    """Record the actions of all rules, and with the event which they are."""
    watched = _watched(conn, story, rules, clicks)
    actions = [
        timed(
            story.request(rule, position),
            delay_of(rule.actions[position]),
            watched=watched.get((rule.id, position)),
            now=story.now,
        )
        for rule in rules
        for position in range(len(rule.actions))
    ]
    action_ids = sorted(reference.id for reference in record(conn, actions, now=story.now))
    if action_ids:
        events.keep_actions(conn, story.event_id, action_ids)
    taken = TakenEvent(
        id=story.event_id,
        name=story.event.name,
        request_hash=story.event.hash,
        rule_ids=[rule.id for rule in rules],
        action_ids=action_ids,
        created_at=story.now,
    )
    links = {action.tracking_link_id for action in actions if action.tracking_link_id is not None}
    return Taken(event=taken, link_ids=tuple(sorted(links)))


def _watched(
    conn: Connection, story: _Story, rules: list[TriggerRule], clicks: ClickStore
) -> dict[tuple[int, int], Watched]:
    """Return what each wait of the rules watches, by (rule id, position).

    In the order of the links' ids: what is locked here, and the clicks that the look makes durable,
    are so by whoever else takes several. Raises InvalidInput ``tracking_link_unknown``.
    """
    named = []
    for rule, position in ((one, n) for one in rules for n in range(len(one.actions))):
        delay = delay_of(rule.actions[position])
        if delay is not None and delay.mode == "waitForTracking":
            token = token_in(story.link_token(rule, delay))
            link = find_link(conn, token) if is_link_token(token) else None
            if link is None:
                raise _no_link(rule, position)
            named.append((link.id, rule, position, token))
    watched = {}
    for _, rule, position, token in sorted(named, key=lambda one: one[0]):
        try:
            found = watch(conn, story.event.tenant_id, token, clicks)
        except NotFound as error:
            raise _no_link(rule, position) from error
        watched[rule.id, position] = found
    return watched


def _no_link(rule: TriggerRule, position: int) -> InvalidInput:
    message = (
        f"action {position + 1} of rule {rule.id} is to wait for a click on a tracking link"
        " that does not exist"
    )
    return InvalidInput.of([Fault(code="tracking_link_unknown", pointer="", message=message)])
