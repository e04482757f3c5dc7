"""What processes do not load, for the memory that it takes."""

import os
import subprocess
import sys

import pytest

_FOR_NOTHING = ("rich", "redis", "jsonschema", "cryptography.fernet", "opentelemetry.sdk")
# Each begins as it does when it is started, and ends for want of settings.
_BEGINNINGS = {
    "worker": "from services.worker.__main__ import main\nassert main() == 2\n",
    "scanner": "from services.scanner.__main__ import main\nassert main() == 2\n",
    "api": (
        "import contextlib, runpy\n"
        "with contextlib.suppress(SystemExit):\n"
        "    runpy.run_path('deploy/gunicorn.conf.py')\n"
        "import services.api.app, services.api.server\n"
    ),
}
_END = "print(*[name for name in sys.argv[1:] if sys.modules.get(name)])\n"


def loaded_of(names, *, program):
    """Return which of these modules are loaded at the end of a program that has no settings."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}{_END}", *names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("service", _BEGINNINGS)
def test_a_process_loads_nothing_that_it_may_never_use(service):
    names = ("structlog", "psycopg", *_FOR_NOTHING)

    loaded = loaded_of(names, program=_BEGINNINGS[service])

    assert loaded == ["structlog", "psycopg"]


@pytest.mark.parametrize("service", _BEGINNINGS)
def test_the_client_of_redis_loads_no_metrics_of_its_own(service):
    program = f"{_BEGINNINGS[service]}import shared.tracking.redis_clicks\n"

    loaded = loaded_of(("redis", "opentelemetry.sdk.metrics"), program=program)

    assert loaded == ["redis"]


def test_what_is_loaded_already_stays():
    program = (
        "import rich\n"
        "from shared.observability.left_out import leave_out_what_nobody_uses\n"
        "leave_out_what_nobody_uses()\n"
    )

    assert loaded_of(["rich"], program=program) == ["rich"]
