"""Bodies that no route may take, sent to each route of the document that takes one."""

import io

import pytest

from services.api.openapi import build_document
from tests.integration.api.callers import MAX_BULK_BYTES, Unreadable, problem, send_stream

METHODS = ("post", "put", "patch")
DOCUMENT = build_document()
TAKING = [
    (method, path, media)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in METHODS
    for media in operation.get("requestBody", {}).get("content", ())
]
JSON = "application/json"
BODIES = [
    pytest.param(b"[" * 10_000 + b"]" * 10_000, id="lists 10,000 deep"),
    pytest.param(b'{"a":' * 10_000 + b"1" + b"}" * 10_000, id="objects 10,000 deep"),
    pytest.param(b'{"a": "\\u0000"}', id="NUL"),
    pytest.param(b'{"a\\u0000": 1}', id="NUL in a key"),
    pytest.param(b"\x00", id="a NUL byte"),
    pytest.param(b'{"a": "\\udfff\\ud800"}', id="surrogates the wrong way round"),
    pytest.param(b'{"a": NaN}', id="NaN"),
    pytest.param(b'{"a": 1e400}', id="1e400"),
    pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="5,000 digits"),
    pytest.param(b'{"a": 1, "a": 2}', id="a key twice"),
    pytest.param(b'{"a": "\xff"}', id="not UTF-8"),
    pytest.param(b'{"a": 1', id="cut short"),
    pytest.param(b"x" * 100_000, id="no JSON"),
    pytest.param(b"true", id="a boolean"),
    pytest.param(b'"' + b"a" * 900_000 + b'"', id="a long text"),
    pytest.param(b"[" + b"0," * 400_000 + b"0]", id="a long list"),
]


def address(path, world):
    for name, ids in world.ids.items():
        path = path.replace("{" + name + "}", str(ids[0]))
    query = []
    if scoped(path) == "root" and (path.endswith("/tables") or "/bundle" in path):
        query.append(f"tenant={world.ids['tenant'][0]}")
    if path.endswith("/apply"):
        query.append(f"fingerprint={'0' * 64}")
    return f"{path}?{'&'.join(query)}"


def scoped(path):
    return path.split("/")[1]


def each_taking_route(media):
    return pytest.mark.parametrize(
        ("method", "path", "world"),
        [
            pytest.param(method, path, scoped(path), id=f"{method} {path}")
            for method, path, taken in TAKING
            if taken == media
        ],
        indirect=["world"],
    )


@each_taking_route(JSON)
def test_no_json_route_takes_an_unsound_body(method, path, world):
    path = address(path, world)
    before = world.state()

    for body in BODIES:
        answer = world.who.request(
            method.upper(), path, data=body.values[0], content_type="application/json"
        )
        assert problem(answer)[0] == 400, body.id
    assert world.state() == before


@each_taking_route("application/x-ndjson")
def test_an_upload_of_unsound_lines_stores_none_of_them(method, path, world):
    before = world.state()

    for body in BODIES:
        answer = world.who.post(
            address(path, world), data=body.values[0], content_type="application/x-ndjson"
        )
        if "/bundle/" in path:  # which is taken whole
            assert problem(answer)[0] == 400, body.id
            assert answer.json["errors"][0]["pointer"] == "/1"
            continue
        assert answer.status_code == 200, body.id
        assert answer.json["created"] == 0
        assert answer.json["refused"] >= 1
    assert world.state() == before


@each_taking_route("text/csv")
def test_an_upload_of_unsound_csv_stores_nothing(method, path, world):
    before = world.state()

    for body in BODIES:
        answer = world.who.post(address(path, world), data=body.values[0], content_type="text/csv")
        assert problem(answer)[0] == 400, body.id
    assert world.state() == before


@pytest.mark.parametrize("world", ["tenant"], indirect=True)
def test_no_route_reads_fifty_megabytes(world):
    before = world.state()
    for method, path, media in TAKING:
        if scoped(path) != "tenant":
            continue
        answer = world.who.request(
            method.upper(),
            address(path, world),
            content_type=media,
            environ_overrides={"wsgi.input": Unreadable(), "CONTENT_LENGTH": "50000000"},
        )
        assert problem(answer)[:2] == (413, "body_too_large")
    assert MAX_BULK_BYTES < 50_000_000
    assert world.state() == before


@pytest.mark.parametrize("world", ["tenant"], indirect=True)
def test_no_route_takes_half_a_body_for_a_whole_one(world):
    before = world.state()
    for method, path, media in TAKING:
        if scoped(path) != "tenant" or method != "post":
            continue
        body = io.BytesIO(b"{}\n")
        answer = send_stream(world.who, address(path, world), body, media=media, length=4)
        assert problem(answer)[:2] in {(400, "body_truncated"), (400, "column_unknown")}
    assert world.state() == before
