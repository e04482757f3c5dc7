import socket

from services.cli.dev import first_free_port


def test_a_port_that_is_taken_is_passed_over():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]

        assert first_free_port(taken, host="127.0.0.1") > taken
    assert first_free_port(taken, host="127.0.0.1") == taken
