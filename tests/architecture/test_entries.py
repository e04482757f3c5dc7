"""The processes hear signals before they import what takes a second."""

import subprocess
import sys

import pytest

_IMPORTS = """
import sys
import services.{service}.__main__
print(sorted({{"psycopg", "pika", "structlog"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize("service", ["scanner", "worker"])
def test_an_entry_imports_little_before_it_hears_signals(service):
    code = _IMPORTS.format(service=service)

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
