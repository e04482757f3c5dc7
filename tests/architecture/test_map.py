"""The map of the house, docs/architecture.md, shows what there is and nothing else."""

import re

from tests.architecture.source import ROOT, files

_MAP = (ROOT / "docs/architecture.md").read_text("utf-8")


def _first_cells(heading):
    """Return the words in backticks in the first cells of the table under a heading."""
    section = _MAP.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_every_table_is_on_the_map():
    schema = (ROOT / "docs/schema.sql").read_text("utf-8")
    tables = set(re.findall(r"^CREATE TABLE (?:public\.)?(\w+) \($", schema, re.MULTILINE))

    assert "scheduled_action" in tables
    assert _first_cells("The tables") == tables


def test_every_package_is_on_the_map():
    packages = {
        f"{path.parts[0]}/{path.parts[1]}"
        for path in files(".py")
        if path.parts[0] in ("services", "shared") and len(path.parts) > 2
    }

    assert _first_cells("The tree") == packages | {"migrations"}


def test_every_module_that_the_map_names_exists():
    named = set(re.findall(r"`((?:services|shared)/[a-z_/]+\.py)`", _MAP))

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
