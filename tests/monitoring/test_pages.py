"""docs/metrics.md lists the metrics that there are, as the code declares them."""

import re

from tests.architecture.source import ROOT
from tests.monitoring.names import alerts, declared, named_in, public_name

_PAGE = (ROOT / "docs/metrics.md").read_text("utf-8")
_ITEM = re.compile(r"^- `(\w+)` \((.+?); (?:API|scanner|worker|, )+\): (.+)$", re.MULTILINE)


def _items():
    unfolded = re.sub(r"\n +", " ", _PAGE)
    return {name: (kind, text) for name, kind, text in _ITEM.findall(unfolded)}


def test_the_page_has_every_metric_with_its_type_labels_and_meaning():
    items = _items()

    assert set(items) == {public_name(metric) for metric in declared()}
    for metric in declared():
        kind, text = items[public_name(metric)]
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        assert kind == metric._type + (f" by {labels}" if labels else ""), metric._name
        assert text.startswith(f"{metric._documentation} "), metric._name


def test_the_page_names_the_alarms_of_each_metric():
    items = _items()
    for rule in alerts():
        for name in named_in(rule["expr"]):
            series = re.sub(r"_(bucket|count|sum)$", "", name)
            assert rule["alert"] in items[series][1], (rule["alert"], series)


def test_no_label_is_the_id_of_something():
    labels = {label for metric in declared() for label in metric._labelnames}

    assert labels == {
        *("part", "kind", "reason", "status", "type", "ok", "queue", "state", "seen_by"),
        *("limit", "method", "route"),
    }
