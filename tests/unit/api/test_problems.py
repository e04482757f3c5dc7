import json

import psycopg
import pytest
from flask import Flask
from psycopg_pool import PoolTimeout
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchAddress

from services.api.problems import (
    LengthRequired,
    TooLarge,
    UnsupportedMedia,
    is_unforeseen,
    respond_to,
)
from shared.errors import (
    Conflict,
    Fault,
    Forbidden,
    InvalidInput,
    NotFound,
    StaleVersion,
    Unauthenticated,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput("no"), 400),
        (Unauthenticated("no"), 401),
        (Forbidden("no"), 403),
        (NotFound("no"), 404),
        (Conflict("no"), 409),
        (LengthRequired("no"), 411),
        (StaleVersion("no"), 412),
        (TooLarge("no"), 413),
        (UnsupportedMedia("no"), 415),
        (Unavailable("no"), 503),
    ],
)
def test_each_error_class_has_its_status(error, status):
    response = respond_to(error)
    document = json.loads(response.data)

    assert response.status_code == document["status"] == status
    assert response.content_type == "application/problem+json"
    assert document["type"] == f"urn:duebook:problem:{error.code}"
    assert document["detail"] == "no"
    assert not is_unforeseen(error)


@pytest.mark.parametrize(
    "error", [PoolTimeout("none"), psycopg.errors.LockNotAvailable(), psycopg.OperationalError()]
)
def test_a_database_that_is_busy_or_away_is_503_with_retry_after(error):
    response = respond_to(error)

    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0


def test_unavailable_says_when_to_come_back():
    response = respond_to(Unavailable("later", retry_after_seconds=7))

    assert response.headers["Retry-After"] == "7"


def test_faults_are_told_with_their_pointers_and_are_bounded():
    faults = [Fault(code="c", pointer=f"/{n}", message=f"m{n}") for n in range(1000)]

    document = json.loads(respond_to(InvalidInput.of(faults)).data)

    assert document["detail"] == "m0"
    assert document["errors"][1] == {"pointer": "/1", "code": "c", "detail": "m1"}
    assert len(document["errors"]) == 100


def test_addresses_and_methods_that_are_not_there_are_problems_too():
    with Flask("test").test_request_context():
        missing = respond_to(NoSuchAddress())
        wrong = respond_to(MethodNotAllowed(valid_methods=["GET"]))

    assert (missing.status_code, json.loads(missing.data)["type"][-9:]) == (404, "not_found")
    assert wrong.status_code == 405
    assert wrong.headers["Allow"] == "GET"


def test_a_message_that_quotes_what_cannot_be_written_is_told_all_the_same():
    assert json.loads(respond_to(InvalidInput("\ud800")).data)["detail"] == "?"


def test_a_bug_is_a_500_that_tells_nothing():
    response = respond_to(ValueError("secret"))

    assert response.status_code == 500
    assert b"secret" not in response.data
    assert is_unforeseen(ValueError())
