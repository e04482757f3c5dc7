"""Every route of the document under generated and handwritten requests.

None may end in a 5xx or in an answer that the document does not have, and none that is refused may
change anything.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from services.api.openapi import build_document

DOCUMENT = schemathesis.openapi.from_dict(build_document())
OPERATIONS = [
    result.ok()
    for result in DOCUMENT.get_all_operations()
    if not result.ok().path.startswith(("/docs", "/openapi"))
]
EXAMPLES = 10
load_all_checks()
DOCUMENTED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]


@schemathesis.serializer("application/x-ndjson")
def _as_it_is(_context, value):
    """Send what is to be lines as it was drawn: some of it is none."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def scope_of(operation):
    return operation.path.split("/")[1]


def each_operation(argnames="operation"):
    """Parametrize with every operation of the document, and the world of its scope."""
    return pytest.mark.parametrize(
        (argnames, "world"),
        [
            pytest.param(operation, scope_of(operation), id=operation.label)
            for operation in OPERATIONS
        ],
        indirect=["world"],
    )


def send(case, world, app):
    """Send a case with sound credentials; see that it is answered as documented."""
    case.headers = {
        name: value
        for name, value in dict(case.headers or {}).items()
        if name.lower() not in ("authorization", "x-admin-token") and sendable(name, value)
    } | world.who.headers
    before = world.state()
    response = case.call(app=app)
    case.validate_response(response, checks=DOCUMENTED)
    if response.status_code >= 400:
        assert world.state() == before


def sendable(name, value):
    """Tell whether a header could stand in a request at all."""
    return name.isascii() and not {"\r", "\n", "\0"} & {*name, *value}


@each_operation()
def test_no_generated_request_breaks_the_api(operation, world, app):
    @hostile(EXAMPLES)
    @given(data=st.data())
    def drive(data):
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        for name in dict(case.path_parameters or {}):
            case.path_parameters[name] = data.draw(st.sampled_from(world.ids[name]))
        if "tenant" in (case.query or {}):
            case.query["tenant"] = data.draw(st.sampled_from(world.ids["tenant"]))
        if "cursor" in (case.query or {}) and data.draw(st.booleans()):
            del case.query["cursor"]
        send(case, world, app)

    drive()


def hostile(examples):
    return settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def test_the_drive_reaches_every_operation():
    assert len(OPERATIONS) > 70
