from dataclasses import replace

import psycopg
import pytest

from services.api.app import create_app
from services.api.dependencies import Parts
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks
from tests.builders_db import row_of
from tests.builders_delayed import insert_link
from tests.builders_rules import NOTIFY, insert_rule
from tests.integration.api.callers import (
    ADMIN_TOKEN,
    MAX_BODY_BYTES,
    MAX_BULK_BYTES,
    PUBLIC_URL,
    faults,
    problem,
)

EVENT = {"name": "ordered", "data": {"sum": 1980}, "idempotency_key": "order-1027"}


@pytest.fixture
def rule(conn, tenant):
    return insert_rule(conn, tenant.id)


@pytest.fixture
def contact(service):
    return service.post("/v1/line-users", json={"external_id": "crm-1"}).json["id"]


def test_an_event_tells_which_rules_matched_and_what_they_scheduled(service, conn, rule, contact):
    answer = service.post("/v1/events", json={**EVENT, "line_user_id": contact})

    assert answer.status_code == 201
    assert (answer.json["name"], answer.json["rule_ids"]) == ("ordered", [rule])
    assert answer.json["rules_of_name"] == 1
    [action_id] = answer.json["scheduled_action_ids"]
    row = row_of(conn, "scheduled_action", action_id)
    assert (row["status"], row["event_id"]) == ("pending", answer.json["id"])
    assert row["line_user_id"] == contact


def test_an_event_needs_its_name_alone(service, rule):
    answer = service.post("/v1/events", json={"name": "nothing"})

    assert answer.status_code == 201
    assert (answer.json["rule_ids"], answer.json["scheduled_action_ids"]) == ([], [])
    # Not that no conditions hold: there is no rule that they could be of.
    assert answer.json["rules_of_name"] == 0


def test_the_same_event_under_its_key_gets_the_same_answer(service, moderator, rule):
    first = service.post("/v1/events", json=EVENT)
    second = moderator.post("/v1/events", json=EVENT)

    assert second.status_code == 201
    assert second.json == first.json


def test_another_event_under_the_key_is_a_conflict(service, stranger, rule):
    service.post("/v1/events", json=EVENT)

    for part in ({"name": "paid"}, {"data": {}}):
        answer = service.post("/v1/events", json={**EVENT, **part})
        assert problem(answer)[:2] == (409, "idempotency_key_reused")
    assert stranger.post("/v1/events", json={**EVENT, "data": {}}).status_code == 201


def test_the_header_counts_too(service, rule):
    body = {"name": "ordered"}
    key = {"Idempotency-Key": "k"}
    first = service.post("/v1/events", json=body, headers=key)
    second = service.post("/v1/events", json=body, headers=key)
    other = service.post("/v1/events", json=EVENT, headers=key)

    assert second.json == first.json
    assert problem(other)[:2] == (409, "idempotency_key_reused")


def test_a_contact_of_another_tenant_is_refused(stranger, service, rule, contact):
    answer = stranger.post("/v1/events", json={**EVENT, "line_user_id": contact})

    assert problem(answer)[:2] == (400, "line_user_unknown")
    assert faults(answer) == [("/line_user_id", "line_user_unknown")]


def test_a_rule_that_cannot_wait_for_a_link_refuses_the_event(service, conn, tenant):
    wait = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "$event.link"}
    insert_rule(conn, tenant.id, actions=[{**NOTIFY, "delay": wait}])

    answer = service.post("/v1/events", json={"name": "ordered", "data": {"link": "x"}})

    assert problem(answer)[:2] == (400, "tracking_link_unknown")


def test_a_click_that_comes_while_the_event_is_taken_is_not_lost(service, conn, tenant):
    link_id = insert_link(conn, tenant.id)
    token = row_of(conn, "tracking_link", link_id)["token"]
    wait = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "$event.link"}
    insert_rule(conn, tenant.id, actions=[{**NOTIFY, "delay": wait}])
    conn.execute(
        "CREATE FUNCTION click() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO tracking_click (link_id, first_clicked_at)"
        " VALUES (NEW.tracking_link_id, clock_timestamp()); RETURN NEW; END $$"
    )
    conn.execute(
        "CREATE TRIGGER click AFTER INSERT ON scheduled_action FOR EACH ROW"
        " EXECUTE FUNCTION click()"
    )

    answer = service.post("/v1/events", json={"name": "ordered", "data": {"link": token}})

    [action_id] = answer.json["scheduled_action_ids"]
    assert row_of(conn, "scheduled_action", action_id)["branch"] == "clicked"


class LostAtTheSecondLook(PostgresClicks):
    """The database goes away when it is asked for a click the second time."""

    def __init__(self):
        self.looks = 0

    def clicked_at(self, conn, link):
        self.looks += 1
        if self.looks == 2:
            raise psycopg.OperationalError("the connection was lost")
        return super().clicked_at(conn, link)


def test_an_event_that_was_taken_is_answered_though_the_look_behind_it_fails(
    pool, service, conn, tenant
):
    clicks = LostAtTheSecondLook()
    app = create_app(
        Parts(
            sessions=pool.connection,
            operator_sessions=pool.connection,
            admin_token=Secret(ADMIN_TOKEN),
            clicks=clicks,
            public_url=PUBLIC_URL,
            max_body_bytes=MAX_BODY_BYTES,
            max_bulk_bytes=MAX_BULK_BYTES,
        )
    )
    token = row_of(conn, "tracking_link", insert_link(conn, tenant.id))["token"]
    wait = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": token}
    insert_rule(conn, tenant.id, actions=[{**NOTIFY, "delay": wait}])

    answer = replace(service, client=app.test_client()).post("/v1/events", json={"name": "ordered"})

    assert answer.status_code == 201
    [action_id] = answer.json["scheduled_action_ids"]
    assert row_of(conn, "scheduled_action", action_id)["status"] == "pending"
    assert clicks.looks == 2


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"name": ""}, [("/name", "field_invalid")]),
        ({"name": "x" * 201}, [("/name", "field_invalid")]),
        ({"data": []}, [("/data", "field_invalid")]),
        ({"data": None}, [("/data", "field_invalid")]),
        ({"data": {"a": "x" * 70_000}}, [("/data", "event_data_too_large")]),
        ({"line_user_id": 0}, [("/line_user_id", "field_invalid")]),
        ({"line_user_id": True}, [("/line_user_id", "field_invalid")]),
        ({"line_user_id": 2**63 - 1}, [("/line_user_id", "line_user_unknown")]),
        ({"idempotency_key": ""}, [("/idempotency_key", "field_invalid")]),
        ({"idempotency_key": "x" * 256}, [("/idempotency_key", "field_invalid")]),
        ({"event": "ordered"}, [("/event", "field_unknown")]),
    ],
)
def test_an_event_that_is_not_valid_is_refused(part, where, service):
    answer = service.post("/v1/events", json={**EVENT, **part})

    assert problem(answer)[0] == 400
    assert faults(answer) == where


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_only_moderators_and_services_tell_of_events(role, caller, tenant):
    answer = caller(tenant, role).post("/v1/events", json=EVENT)

    assert problem(answer)[:2] == (403, "role_missing")


def test_past_events_are_listed_the_newest_first_page_by_page(service, moderator, rule):
    taken = [
        service.post("/v1/events", json={"name": name, "data": {"sum": sum}}).json
        for sum, name in enumerate(("ordered", "paid", "ordered"), 1)
    ]

    first = moderator.get("/v1/events?limit=2").json
    second = moderator.get(f"/v1/events?limit=2&cursor={first['next_cursor']}").json
    named = service.get("/v1/events?name=ordered").json

    newest_first = [one["id"] for one in reversed(taken)]
    assert [one["id"] for one in first["items"] + second["items"]] == newest_first
    assert second["next_cursor"] is None
    assert [one["data"] for one in named["items"]] == [{"sum": 3}, {"sum": 1}]


def test_past_events_are_found_by_time(service, conn, tenant):
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        conn.execute(
            "INSERT INTO event (tenant_id, name, created_at) VALUES (%s, %s, %s)",
            [tenant.id, day, day],
        )

    found = service.get("/v1/events?from=2026-01-02T00:00:00Z&to=2026-01-03T00:00:00Z").json

    assert [one["name"] for one in found["items"]] == ["2026-01-02"]


def test_a_past_event_tells_what_was_told_and_what_came_of_it(service, stranger, rule, contact):
    told = {**EVENT, "line_user_id": contact}
    taken = service.post("/v1/events", json=told).json
    address = f"/v1/events/{taken['id']}"

    del taken["rules_of_name"]
    assert service.get(address).json == told | taken
    assert problem(stranger.get(address))[:2] == (404, "event_not_found")
    assert stranger.get("/v1/events").json == {"items": [], "next_cursor": None}
