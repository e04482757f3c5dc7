"""The stage on which worlds are played."""

from functools import partial
from ipaddress import ip_network

import pytest

from shared.actions.addresses import AddressPolicy
from shared.actions.http import HttpCaller
from shared.queries.work import recover_stale
from shared.usecases import announce
from tests.integration.actions.receivers import a_receiver
from tests.integration.workflows.stage import AnsweringReceiver, Stage


@pytest.fixture
def stage(conn, database_url, monkeypatch):
    # The server has just begun: a worker without its lock counts as dead all the same.
    at_once = partial(recover_stale, restart_grace_seconds=0)
    monkeypatch.setattr(announce, "recover_stale", at_once)
    caller = HttpCaller(
        policy=AddressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),)),
        ports=range(1, 65536),
        user_agent="Duebook/test",
    )
    with a_receiver(receiver=AnsweringReceiver()) as receiver:
        stage = Stage(conn, database_url, receiver, caller)
        yield stage
        stage.close()
    caller.close()
