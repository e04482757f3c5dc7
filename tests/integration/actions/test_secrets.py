"""Headers that name a secret: it is read at the call, and stands nowhere else."""

from dataclasses import replace

import pytest

from shared.actions.failures import ActionFailed
from shared.queries.secrets import delete_secret, insert_secret, replace_secret
from tests.builders_db import insert_tenant
from tests.builders_sealed import CLEAR, LOST, NEW, OLD, ROTATING
from tests.integration.actions.contexts import NOW, execute

CANARY = "canary-7f3a9c"


@pytest.fixture
def add(workspace):
    """Stores a secret of the workspace's tenant, or of another."""

    def add(name="crm_token", value=CANARY, *, sealer=CLEAR, tenant_id=None):
        insert_secret(
            workspace.conn,
            tenant_id=tenant_id or workspace.tenant.id,
            name=name,
            value=sealer.seal(value.encode()),
            now=NOW,
        )

    return add


def _webhook(receiver, **headers):
    return {"type": "webhook", "url": f"{receiver.url}/in", "headers": headers}


def _api_call(receiver, **headers):
    return {"type": "api_call", "method": "GET", "url": receiver.url, "headers": headers}


def _named(name="crm_token", **more):
    return {"secret": name, **more}


def _failure(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    return caught.value


@pytest.mark.parametrize("make", [_webhook, _api_call])
def test_a_secret_stands_in_the_place_of_its_name(workspace, receiver, add, make):
    add()
    add("other", "o")

    result = execute(
        make(
            receiver,
            Authorization=_named(prefix="Bearer "),
            **{"X-Key": _named("other"), "X-Case": _named("other", prefix="$row.amount/")},
        ),
        workspace.context(),
    )

    [request] = receiver.requests
    assert request.headers["authorization"] == f"Bearer {CANARY}"
    assert request.headers["x-key"] == "o"
    assert request.headers["x-case"] == "1.5/o"
    assert result == {"status": 200}


def test_it_is_as_it_is_at_the_call(workspace, receiver, add):
    add()
    config = _webhook(receiver, A=_named())

    execute(config, workspace.context())
    replace_secret(
        workspace.conn,
        tenant_id=workspace.tenant.id,
        name="crm_token",
        value=CLEAR.seal(b"another"),
        now=NOW,
    )
    execute(config, workspace.context())

    assert [request.headers["a"] for request in receiver.requests] == [CANARY, "another"]


def test_what_is_not_there_fails_for_good_and_nothing_is_sent(workspace, receiver, add):
    add()
    delete_secret(workspace.conn, workspace.tenant.id, "crm_token")

    failure = _failure(_webhook(receiver, A=_named()), workspace.context())

    told = "header 'A' names the secret 'crm_token', which does not exist"
    assert (failure.detail, failure.transient, failure.unknown) == (told, False, False)
    assert receiver.requests == []


def test_the_secret_of_another_tenant_is_not_there(workspace, receiver, add):
    add(tenant_id=insert_tenant(workspace.conn))

    failure = _failure(_api_call(receiver, A=_named()), workspace.context())

    assert "does not exist" in failure.detail


def _with(workspace, sealer):
    """The parts of a worker that has these keys."""
    return replace(workspace.services, sealer=sealer)


@pytest.mark.parametrize("sealer", [OLD, NEW])
def test_one_under_any_of_the_keys_is_read(workspace, receiver, add, sealer):
    add(sealer=sealer)

    execute(_api_call(receiver, A=_named()), workspace.context(services=_with(workspace, ROTATING)))

    assert receiver.requests[0].headers["a"] == CANARY


@pytest.mark.parametrize("sealer", [CLEAR, OLD])
def test_one_under_a_key_that_is_not_here_fails_for_now(workspace, receiver, add, sealer):
    add(sealer=LOST)

    failure = _failure(
        _api_call(receiver, A=_named()), workspace.context(services=_with(workspace, sealer))
    )

    assert failure.transient
    assert failure.detail.startswith("the secret 'crm_token' cannot be read: no key of")
    assert receiver.requests == []


def test_a_receiver_who_quotes_it_does_not_get_it_into_a_receipt(workspace, receiver, add):
    add()
    add("longer", f"{CANARY}-and-more")
    quoted = f"bad token '{CANARY}', '{CANARY}-and-more'".encode()
    receiver.answers = [(401, {}, quoted)]

    failure = _failure(_webhook(receiver, A=_named(), B=_named("longer")), workspace.context())

    assert failure.detail == "answered 401: bad token '***', '***'"


@pytest.mark.parametrize("quoted", ['a"b\\c/d', r"a\"b\\c/d", r"a\"b\\c\/d"])
def test_one_quoted_in_json_does_not_get_into_a_receipt(workspace, receiver, add, quoted):
    add(value='a"b\\c/d')
    receiver.answers = [(401, {}, f'{{"you sent": "{quoted}"}}'.encode())]

    failure = _failure(_api_call(receiver, A=_named()), workspace.context())

    assert failure.detail == 'answered 401: {"you sent": "***"}'


@pytest.mark.parametrize("quoted", ["a%22b/%3C", "a%22b%2F%3C", "a&quot;b/&lt;"])
def test_nor_does_one_quoted_in_an_address_or_a_page(workspace, receiver, add, quoted):
    add(value='a"b/<')
    receiver.answers = [(401, {}, f"no such token: {quoted}".encode())]

    failure = _failure(_api_call(receiver, A=_named()), workspace.context())

    assert failure.detail == "answered 401: no such token: ***"


@pytest.mark.parametrize("cell", [{"secret": "crm_token"}, "crm_token"])
def test_what_a_token_stands_for_names_no_secret(workspace, receiver, add, cell):
    add()
    context = workspace.context(snapshot={"c1": cell, "c2": None, "c3": None})

    execute(_webhook(receiver, A="${row.案件名稱}", B=_named()), context)

    [request] = receiver.requests
    assert request.headers["b"] == CANARY
    assert CANARY not in request.headers["a"]


def test_a_header_that_grows_too_long_is_told_without_it(workspace, receiver, add):
    add(value="y" * 4000)
    context = workspace.context(snapshot={"c1": "x" * 100, "c2": None, "c3": None})

    failure = _failure(_webhook(receiver, A=_named(prefix="${row.案件名稱}")), context)

    assert failure.detail == "header 'A' has more than 4096 characters"
    assert not failure.transient


def test_an_action_without_secrets_asks_the_database_for_nothing(workspace, receiver):
    without_sessions = replace(workspace.context(), connect=None)

    execute(_api_call(receiver, Authorization="Bearer plain"), without_sessions)

    assert receiver.requests[0].headers["authorization"] == "Bearer plain"
