from uuid import UUID

import pytest

from shared.db.clock import server_now
from shared.queries.chat_messages import store_message
from tests.integration.api.callers import problem

CHATROOM = UUID("11111111-1111-4111-8111-111111111111")
PATH = f"/v1/chatrooms/{CHATROOM}/messages"


@pytest.fixture
def messages(conn, tenant):
    for number in range(3):
        store_message(
            conn,
            tenant_id=tenant.id,
            chatroom_id=CHATROOM,
            message=f"m{number}",
            origin_key=f"k{number}",
            now=server_now(conn),
        )


@pytest.mark.usefixtures("messages")
def test_messages_are_listed_in_pages_the_newest_first(service):
    first = service.get(f"{PATH}?limit=2").json
    second = service.get(f"{PATH}?limit=2&cursor={first['next_cursor']}").json

    assert [item["message"] for item in first["items"] + second["items"]] == ["m2", "m1", "m0"]


@pytest.mark.usefixtures("messages")
def test_another_tenant_sees_an_empty_chatroom(stranger):
    assert stranger.get(PATH).json == {"items": [], "next_cursor": None}


@pytest.mark.usefixtures("messages")
def test_a_cursor_of_one_tenant_is_void_for_another(moderator, stranger):
    cursor = moderator.get(f"{PATH}?limit=1").json["next_cursor"]

    answer = stranger.get(f"{PATH}?limit=1&cursor={cursor}")

    assert problem(answer)[:2] == (400, "cursor_invalid")


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_editors_and_viewers_see_no_messages(role, caller, tenant):
    assert problem(caller(tenant, role).get(PATH))[:2] == (403, "role_missing")
