"""The dashboard: ten panels whose expressions Prometheus reads, over metrics that there are."""

import json
import re
import subprocess

import yaml

from tests.monitoring.names import FILES, named_in, samples
from tests.servers.promtool import find_promtool

_BOARD = json.loads((FILES / "dashboard.json").read_text("utf-8"))
_EXPRESSIONS = [target["expr"] for panel in _BOARD["panels"] for target in panel["targets"]]
_VARIABLES = {"$ns": ".*"}


def test_there_are_ten_panels_and_none_covers_another():
    panels = _BOARD["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}

    assert len(panels) == len(places) == len({panel["id"] for panel in panels}) == 10
    assert {(panel["gridPos"]["w"], panel["gridPos"]["h"]) for panel in panels} == {(12, 8)}


def test_every_expression_asks_for_metrics_that_there_are():
    queries = [variable["query"] for variable in _BOARD["templating"]["list"]]

    assert all(map(named_in, _EXPRESSIONS))
    assert {name for text in _EXPRESSIONS + queries for name in named_in(text)} <= samples()


def test_prometheus_reads_every_expression(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": _filled_in(expression)}
        for number, expression in enumerate(_EXPRESSIONS)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    checked = subprocess.run(
        [find_promtool(), "check", "rules", file], capture_output=True, text=True
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def _filled_in(expression):
    filled = re.sub(r"\$\w+", lambda found: _VARIABLES[found[0]], expression)
    assert "$" not in filled
    return filled
