"""The alarms: that they ask for what there is, say what to do, and are heard when they should."""

import re
import shutil
import subprocess
from collections import Counter

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.monitoring.made_up_series import PASTS
from tests.monitoring.names import ALERTS, alerts, named_in, samples
from tests.servers.promtool import find_promtool


@pytest.fixture(scope="module")
def promtool():
    program = find_promtool()

    def run(*arguments, folder):
        return subprocess.run(
            [program, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


def test_prometheus_takes_the_rules(promtool):
    checked = promtool("check", "rules", "--lint-fatal", ALERTS.name, folder=ALERTS.parent)

    assert checked.returncode == 0, checked.stdout


def test_every_alarm_asks_for_metrics_that_there_are():
    for rule in alerts():
        assert named_in(rule["expr"]), rule["alert"]
        assert named_in(rule["expr"]) <= samples(), rule["alert"]


def test_every_alarm_has_a_severity_and_its_place_in_the_runbook():
    runbook = (ROOT / "docs/runbook.md").read_text("utf-8")
    prose = re.sub(r"^>.*\n", "", runbook, flags=re.M)
    sections = dict(re.findall(r"^### (Duebook\w+)\n(.+?)(?=\n##|\Z)", prose, re.M | re.S))

    for rule in alerts():
        name, notes = rule["alert"], rule["annotations"]
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert notes["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        assert notes["summary"].endswith("."), name
        assert sections[name].strip(), name
    assert set(sections) == {rule["alert"] for rule in alerts()}


def test_every_alarm_has_a_past_that_it_tells_of_and_one_that_it_does_not():
    kinds = Counter((past.alert, past.fires) for past in PASTS)

    assert set(kinds) == {(rule["alert"], fires) for rule in alerts() for fires in (True, False)}
    assert {name for past in PASTS for one in past.series for name in named_in(one)} <= samples()


def test_the_alarms_are_heard_when_they_should_be_and_only_then(promtool, tmp_path):
    shutil.copy(ALERTS, tmp_path)
    rules = {rule["alert"]: rule for rule in alerts()}
    tests = [_test(past, rules[past.alert]) for past in PASTS]
    document = {"rule_files": [ALERTS.name], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))

    tested = promtool("test", "rules", "tests.yaml", folder=tmp_path)

    assert tested.returncode == 0, tested.stdout


def _test(past, rule):
    heard = {
        "exp_labels": {**rule["labels"], **past.labels},
        "exp_annotations": rule["annotations"],
    }
    return {
        "name": f"{past.alert}: {'loud' if past.fires else 'quiet'}",
        "interval": "1m",
        "input_series": [{"series": one, "values": past.series[one]} for one in past.series],
        "alert_rule_test": [
            {
                "eval_time": past.at,
                "alertname": past.alert,
                "exp_alerts": [heard] if past.fires else [],
            }
        ],
    }
