import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, files

_MIGRATIONS = [path for path in files(".sql") if path.parts[0] == "migrations"]
_SQUAWK = Path(sysconfig.get_path("scripts")) / "squawk"
# The runner limits the wait for locks and asks again; small integers are chosen where they suffice;
# the domain is there since the driver cannot read what it forbids.
_NOT_ASKED = (
    "ban-create-domain-with-constraint",
    "require-lock-timeout",
    "require-statement-timeout",
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
)


def _complaints(path):
    in_transaction = not path.read_text("utf-8").startswith("-- no-transaction\n")
    done = subprocess.run(
        [
            _SQUAWK,
            "--pg-version=15",
            "--reporter=gcc",
            f"--exclude={','.join(_NOT_ASKED)}",
            *(["--assume-in-transaction"] if in_transaction else []),
            path,
        ],
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if ": warning" in line or ": error" in line]


@pytest.mark.parametrize("path", _MIGRATIONS, ids=str)
def test_a_migration_locks_no_table_for_long(path):
    assert _complaints(ROOT / path) == []


def test_a_migration_that_would_is_found(tmp_path):
    bad = tmp_path / "0002_bad.sql"
    bad.write_text(
        "ALTER TABLE record ADD COLUMN x text NOT NULL;\nCREATE INDEX i ON record (x);\n"
    )

    assert len(_complaints(bad)) == 2
