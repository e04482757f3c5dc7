"""What pages list is what the code declares: `make docs` would change nothing."""

import json
import re
from dataclasses import replace

import pytest

from shared.observability.metrics import DECLARED
from tests.architecture.source import ROOT
from tests.monitoring.names import declared
from tests.pages import settings, values, values_schema
from tests.pages.__main__ import PAGES
from tests.pages.generated import quotation, with_part


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_make_docs_writes(name):
    page = (ROOT / name).read_text("utf-8")

    assert PAGES[name](page) == page


@pytest.mark.parametrize("name", PAGES)
def test_what_was_changed_by_hand_is_written_anew(name):
    page = (ROOT / name).read_text("utf-8")
    spoiled = re.sub(r"duebook_ticks_total|1 to 500|profiles\.\*\.replicas", "something else", page)

    assert spoiled != page
    assert PAGES[name](spoiled) == page


def test_a_page_without_the_place_of_a_part_is_refused():
    with pytest.raises(ValueError, match="0 parts metrics"):
        with_part("# Metrics\n", "metrics", "- one")


def test_a_key_that_no_table_would_list_is_refused(monkeypatch):
    page = (ROOT / "docs/settings.md").read_text("utf-8")
    both = replace(settings.KEYS["API_PORT"], read_by=("api", "scanner"))
    monkeypatch.setattr(settings, "KEYS", {**settings.KEYS, "API_PORT": both})

    with pytest.raises(ValueError, match="no table has API_PORT"):
        settings.settings_page(page)


def test_a_value_that_no_table_would_list_is_refused(monkeypatch):
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    monkeypatch.setattr(values, "VALUES", {**values.VALUES, "hostNetwork": False})

    with pytest.raises(ValueError, match="no table has hostNetwork"):
        values.kubernetes_page(page)


def test_what_means_something_else_in_each_profile_is_refused(monkeypatch, tmp_path):
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    schema = (ROOT / "deploy/k8s/values.schema.json").read_text("utf-8")
    other = schema.replace('"$ref": "#/definitions/replicas"', '"description": "pods"', 1)
    (tmp_path / "values.schema.json").write_text(other, "utf-8")
    monkeypatch.setattr(values, "CHART", tmp_path)

    with pytest.raises(ValueError, match=r"profiles\.\*\.replicas has several meanings"):
        values.kubernetes_page(page)


def test_a_default_of_the_chart_is_told_in_schema_and_page(monkeypatch):
    schema = (ROOT / "deploy/k8s/values.schema.json").read_text("utf-8")
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    changed = {**values.VALUES, "secretsAs": "environment"}
    monkeypatch.setattr(values, "VALUES", changed)
    monkeypatch.setattr(values_schema, "VALUES", changed)

    told = json.loads(values_schema.values_schema(schema))["properties"]["secretsAs"]

    assert told["default"] == "environment"
    assert "| `secretsAs` | environment |" in values.kubernetes_page(page)


def test_a_new_setting_enters_the_schema_of_the_chart(monkeypatch):
    schema = (ROOT / "deploy/k8s/values.schema.json").read_text("utf-8")
    keys = {name: key for name, key in values_schema.KEYS.items() if name != "FIRE_BATCH"}
    monkeypatch.setattr(values_schema, "KEYS", keys)

    without = values_schema.values_schema(schema)
    monkeypatch.undo()

    assert "FIRE_BATCH" not in without
    assert values_schema.values_schema(without) == schema


def test_a_comparison_begins_no_quotation_within_a_quotation():
    lines = quotation("x " * 58 + "> 3").splitlines()

    assert len(lines) == 2
    assert [line for line in lines if line.startswith("> >")] == []


def test_every_metric_is_declared_with_who_measures_it_and_what_it_means():
    assert [one.metric for one in DECLARED] == declared()
    assert [one.metric._name for one in DECLARED if not (one.services and one.note)] == []
    texts = [text for one in DECLARED for text in (one.metric._documentation, one.note)]
    assert [text for text in texts if not re.search(r"[.?]$", text)] == []
