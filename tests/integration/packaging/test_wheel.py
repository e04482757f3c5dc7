import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    (path,) = folder.glob("duebook-*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_has_every_file_of_the_packages(wheel):
    kept = {
        path.relative_to(_ROOT).as_posix()
        for package in ("services", "shared", "migrations")
        for path in (_ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert kept <= set(wheel.namelist())
    assert "migrations/0001_core.sql" in kept


def test_the_wheel_has_nothing_of_the_tests(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}

    assert {top for top in tops if not top.startswith("duebook-")} == {
        "migrations",
        "services",
        "shared",
    }


def test_the_wheel_names_the_command(wheel):
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]

    assert "duebook = services.cli.main:main" in wheel.read(entry_points).decode()
