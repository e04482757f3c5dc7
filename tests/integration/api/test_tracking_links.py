import pytest

from shared.db.clock import server_now
from shared.queries.tracking import find_click
from tests.builders_delayed import insert_execution, insert_line_user, insert_link
from tests.integration.api.callers import PUBLIC_URL, faults, problem

PATH = "/v1/tracking-links"
TARGET = "https://example.com/offer?a=1&b=%20#part"


@pytest.fixture
def link(service):
    return service.post(PATH, json={"target_url": TARGET}).json


def test_a_link_is_made_with_an_address_of_ours(service, conn, tenant):
    contact = insert_line_user(conn, tenant.id)
    body = {"target_url": TARGET, "line_user_id": contact, "name": "spring offer"}

    answer = service.post(PATH, json=body)

    assert answer.status_code == 201
    link = answer.json
    assert {key: link[key] for key in body} == body
    assert link["url"] == f"{PUBLIC_URL}/t/{link['token']}"
    assert (link["clicks"], link["first_clicked_at"]) == (0, None)
    assert (link["execution_id"], link["workflow_node_path"]) == (None, None)
    assert service.get(f"{PATH}/{link['id']}").json == link


def test_every_link_has_a_token_of_its_own(service):
    made = {service.post(PATH, json={"target_url": TARGET}).json["token"] for _ in range(5)}

    assert len(made) == 5


def test_a_link_tells_of_its_clicks(service, link, nobody, conn):
    for _ in range(2):
        nobody.get(f"/t/{link['token']}")

    told = service.get(f"{PATH}/{link['id']}").json

    assert told["clicks"] == 2
    assert told["first_clicked_at"] is not None
    assert find_click(conn, link["id"]) <= server_now(conn)


def test_the_link_of_a_wait_names_its_execution(service, conn, tenant):
    step = insert_execution(conn, tenant.id)
    link_id = insert_link(
        conn, tenant.id, execution_id=step["execution_id"], workflow_node_path="2"
    )

    told = service.get(f"{PATH}/{link_id}").json

    assert told["execution_id"] == str(step["execution_id"])
    assert told["workflow_node_path"] == "2"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://example.com",
        "//example.com",
        "/offer",
        "https://",
        "https://user:pw@example.com",
        "https://example.com/\r\nSet-Cookie: a=b",
        "https://example.com/ x",
        "https://example.com/ü",
        "https:\\\\example.com",
    ],
)
def test_a_target_that_is_no_plain_web_address_is_refused(service, url):
    answer = service.post(PATH, json={"target_url": url})

    assert answer.status_code == 400
    assert faults(answer) == [("/target_url", "url_invalid")]


@pytest.mark.parametrize("length", [0, 2049])
def test_a_target_has_a_length(service, length):
    url = ("https://example.com/" + "x" * 2048)[:length]

    assert faults(service.post(PATH, json={"target_url": url}))[0][0] == "/target_url"


def test_a_contact_of_another_tenant_is_none(service, conn, other_tenant):
    contact = insert_line_user(conn, other_tenant.id)

    answer = service.post(PATH, json={"target_url": TARGET, "line_user_id": contact})

    assert faults(answer) == [("/line_user_id", "line_user_unknown")]


def test_a_contact_that_was_deleted_is_none(service, conn, tenant):
    contact = insert_line_user(conn, tenant.id, deleted_at=server_now(conn))

    answer = service.post(PATH, json={"target_url": TARGET, "line_user_id": contact})

    assert faults(answer) == [("/line_user_id", "line_user_unknown")]


def test_links_are_listed_in_pages_the_newest_first(service, stranger):
    made = [service.post(PATH, json={"target_url": TARGET}).json["id"] for _ in range(3)]
    stranger.post(PATH, json={"target_url": TARGET})

    first = service.get(f"{PATH}?limit=2").json
    second = service.get(f"{PATH}?limit=2&cursor={first['next_cursor']}").json

    assert [item["id"] for item in first["items"] + second["items"]] == made[::-1]
    assert second["next_cursor"] is None


def test_another_tenant_does_not_find_a_link(stranger, link):
    assert problem(stranger.get(f"{PATH}/{link['id']}"))[:2] == (404, "tracking_link_not_found")


def test_a_link_is_made_once_under_a_key(service):
    key = {"Idempotency-Key": "k"}
    made = [service.post(PATH, json={"target_url": TARGET}, headers=key).json for _ in range(2)]

    assert made[0] == made[1]
    assert len(service.get(PATH).json["items"]) == 1


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_editors_and_viewers_have_no_links(role, caller, tenant):
    who = caller(tenant, role)

    assert problem(who.get(PATH))[:2] == (403, "role_missing")
    assert problem(who.post(PATH, json={"target_url": TARGET}))[:2] == (403, "role_missing")


def test_the_admin_names_a_tenant(admin, tenant):
    answer = admin.post(f"{PATH}?tenant={tenant.id}", json={"target_url": TARGET})

    assert answer.status_code == 201
