"""What a service may see of the sessions of others: little, and enough to count them."""

import pytest

from shared.db.connection import connect
from shared.db.roles import API, SCANNER, WORKER
from shared.db.sessions import count_sessions, list_open_transactions

_CLIENT_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"


@pytest.fixture(params=[API, SCANNER, WORKER])
def service(request, login_url):
    """A session with the rights of a service, and no others."""
    with connect(login_url(request.param), application_name="one", role=request.param) as session:
        yield session


@pytest.fixture
def colleague(login_url):
    """Another session of the scanner's login."""
    with connect(login_url(SCANNER), application_name="colleague", role=SCANNER) as session:
        yield session


@pytest.fixture
def client_backends(postgres_process):
    """The processes of clients' sessions, as an admin sees them."""
    with connect(postgres_process.server.url("postgres"), application_name="admin") as admin:
        yield lambda: {pid for (pid,) in admin.execute(_CLIENT_BACKENDS)}


def test_a_service_counts_the_sessions_of_clients_and_no_others(client_backends, service):
    before = client_backends()
    counted = count_sessions(service)
    after = client_backends()

    assert len(before & after) <= counted.open <= len(before | after)
    assert 1 <= counted.open_by_role < counted.open < counted.allowed
    assert counted.allowed_to_role is None


def test_a_service_sees_that_a_colleague_has_a_transaction_open(service, colleague):
    with colleague.transaction():
        colleague.execute("SELECT 1")
        seen = list_open_transactions(service)

    assert (colleague.info.backend_pid, "colleague") in {
        (one.pid, one.application_name) for one in seen
    }
