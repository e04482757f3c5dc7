import subprocess
from ipaddress import ip_network

import pytest

from shared.actions.addresses import AddressPolicy
from shared.actions.http import HttpCaller
from tests.integration.actions.contexts import a_workspace
from tests.integration.actions.receivers import a_receiver

LOOPBACK = AddressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),))
ANY_PORT = range(1, 65536)


@pytest.fixture
def receiver():
    with a_receiver() as running:
        yield running


@pytest.fixture
def caller():
    """A caller that may call this machine."""
    caller = HttpCaller(policy=LOOPBACK, ports=ANY_PORT, user_agent="Duebook/test")
    yield caller
    caller.close()


@pytest.fixture
def strict_caller():
    """A caller as it is without any allowance, but for ports: receivers have whatever is free."""
    caller = HttpCaller(policy=AddressPolicy(), ports=ANY_PORT, user_agent="Duebook/test")
    yield caller
    caller.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """(certificate file, key file), self-signed for 127.0.0.1 and for the name 0x7f000001."""
    folder = tmp_path_factory.mktemp("tls")
    files = (folder / "cert.pem", folder / "key.pem")
    names = "subjectAltName=IP:127.0.0.1,DNS:0x7f000001"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    subject = ["-subj", "/CN=receiver", "-addext", names]
    output = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *subject, *output], check=True, capture_output=True)
    return files


@pytest.fixture
def workspace(conn, caller):
    """A tenant with a table, whose actions may call this machine."""
    return a_workspace(conn, caller)
