import re
from hashlib import sha256
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from services.api.app import create_app
from services.api.dependencies import Parts
from services.api.openapi import build_document
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks

STATIC = Path("services/api/static")
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document():
    return build_document()


@pytest.fixture(scope="module")
def app():
    def no_database():
        raise AssertionError("a session was asked for")

    parts = Parts(
        sessions=no_database,
        operator_sessions=no_database,
        admin_token=Secret("admin"),
        clicks=PostgresClicks(),
        public_url="https://go.example.com",
        max_body_bytes=1000,
        max_bulk_bytes=1000,
    )
    return create_app(parts)


def operations(document):
    return {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def test_the_document_is_valid_openapi_3_1(document):
    assert document["openapi"] == "3.1.0"
    validate(document)


def test_every_route_is_in_the_document_and_the_other_way_round(document, app):
    served = {
        (method.lower(), re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD"}
    }

    # The files of the page, and the way to it, are no part of the API.
    assert served - {("get", "/docs/{name}"), ("get", "/")} == set(operations(document))


def test_operation_ids_are_unique_and_have_the_names_of_the_contract(document):
    ids = [operation["operationId"] for operation in operations(document).values()]

    assert len(ids) == len(set(ids))
    assert {
        "triggers.set",
        "triggers.schedulePreview",
        "triggerRuns.list",
        "root.runDueTriggers",
    } <= set(ids)


def test_table_routes_are_the_same_in_all_scopes(document):
    def below(prefix):
        return {
            (method, path.removeprefix(prefix))
            for method, path in operations(document)
            if path.startswith(prefix)
        }

    tenant = below("/tenant/custom-tables")
    assert tenant
    assert below("/channel/custom-tables") == tenant
    assert below("/root/custom-tables") == tenant | {("post", "/run-due-triggers")}


def test_every_operation_tells_its_errors_as_problems(document):
    for (_, path), operation in operations(document).items():
        if operation["tags"] == ["reference"]:
            continue
        for status, response in operation["responses"].items():
            if status >= "400":
                assert response == {"$ref": f"#/components/responses/Problem{status}"}, path
        assert "503" in operation["responses"]
        # Following a link is no tenant's request.
        assert ("429" in operation["responses"]) == (operation["security"] != [])
        is_open = operation["security"] == [] or path.startswith("/root/")
        assert ("401" in operation["responses"]) == (not is_open)


def test_every_operation_tells_what_it_does_and_every_group_what_it_is_about(document):
    described = {tag["name"]: tag["description"] for tag in document["tags"]}

    for operation in operations(document).values():
        assert operation["summary"]
        assert set(operation["tags"]) <= set(described)
    used = {tag for operation in operations(document).values() for tag in operation["tags"]}
    assert used == set(described)


def test_every_problem_has_an_example_of_its_own_status(document):
    for name, response in document["components"]["responses"].items():
        [media] = response["content"].values()
        assert name == f"Problem{media['example']['status']}"
        assert response["description"]


def test_only_operations_that_create_take_an_idempotency_key(document):
    takes = {
        operation["operationId"]
        for operation in operations(document).values()
        if any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
    }

    assert {"tables.create", "records.create", "records.bulkCreate", "tokens.issue"} <= takes
    assert not takes & {"triggers.set", "tables.list", "triggerRuns.retry"}


def test_the_document_and_its_page_are_served_without_a_database(app, document):
    client = app.test_client()

    assert client.get("/openapi.json").json == document
    with client.get("/docs") as page:
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_the_front_door_leads_to_the_page(app):
    assert app.test_client().get("/").headers["Location"] == "/docs"


def test_the_page_asks_for_files_of_this_host_alone(app):
    client = app.test_client()
    with client.get("/docs") as answer:
        page = answer.get_data(as_text=True)
    asked = [found for found in re.findall(r'(?:src|href)="([^"]+)"', page) if found != "data:,"]

    assert asked
    for address in asked:
        with client.get(address) as answer:
            assert answer.status_code == 200
    assert "://" not in page
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*src=)", page)


def test_files_outside_the_page_are_not_served(app):
    for path in ("/docs/../app.py", "/docs/%2e%2e/app.py", "/docs/nothing", "/docs/a%00b"):
        assert app.test_client().get(path).status_code == 404


def test_the_vendored_files_are_those_of_the_notice():
    folder = STATIC / "swagger-ui"
    told = dict(
        reversed(line.split("  "))
        for line in (folder / "NOTICE").read_text().splitlines()
        if re.match(r"[0-9a-f]{64}  ", line)
    )

    found = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "NOTICE"
    }
    assert found == told
