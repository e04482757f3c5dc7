"""The metrics as the code declares them, the alarms as the file has them, and names in between."""

import re

import yaml
from prometheus_client.metrics import MetricWrapperBase

from shared.observability import metrics
from tests.architecture.source import ROOT

FILES = ROOT / "deploy/k8s/files"
ALERTS = FILES / "alerts.yaml"
_NAME = re.compile(r"\bduebook_[a-z_]+")
_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def declared():
    """Return every metric of the product."""
    return [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]


def public_name(metric):
    """Return the name under which people know a metric."""
    return metric._name + ("_total" if metric._type == "counter" else "")


def samples():
    """Return the names of all series that the code makes."""
    return {metric._name + end for metric in declared() for end in _SUFFIXES[metric._type]}


def named_in(expression):
    """Return the names of the product's series in an expression."""
    return set(_NAME.findall(expression))


def alerts():
    """Return the rules."""
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]
