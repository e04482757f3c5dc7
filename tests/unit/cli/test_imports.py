import subprocess
import sys

_HEAVY = ("flask", "pika", "redis", "jsonschema", "shared.actions", "shared.usecases.tick")
_LOADED = (
    f"import sys, services.cli.main; print([name for name in {_HEAVY} if name in sys.modules])"
)


def test_no_command_waits_for_what_it_does_not_use():
    told = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )

    assert told.stdout == "[]\n"
