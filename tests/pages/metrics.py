"""What docs/metrics.md says of each metric, and docs/runbook.md at the head of each alarm."""

import re

from shared.observability.metrics import DECLARED
from tests.monitoring.names import alerts, named_in, public_name
from tests.pages.generated import item, quotation, with_part

_SERIES_ENDS = re.compile(r"_(bucket|count|sum)$")
_SECTION = re.compile(r"^### (Duebook\w+)\n\n(?:> .*\n)*\n*", re.MULTILINE)


def metrics_page(page):
    """Return docs/metrics.md with its list."""
    return with_part(page, "metrics", "\n".join(map(_metric, DECLARED)))


def _metric(declared):
    metric = declared.metric
    labels = ", ".join(f"`{label}`" for label in metric._labelnames)
    kind = metric._type + (f" by {labels}" if labels else "")
    alarms = [
        rule["alert"] for rule in alerts() if public_name(metric) in _metrics_of(rule["expr"])
    ]
    links = ", ".join(f"[{name}](runbook.md#{name.lower()})" for name in alarms)
    text = (
        f"`{public_name(metric)}` ({kind}; {', '.join(declared.services)}):"
        f" {metric._documentation} {declared.note}"
    )
    return item(f"{text} Alarm: {links}." if links else text)


def _metrics_of(expression):
    return {_SERIES_ENDS.sub("", name) for name in named_in(expression)}


def runbook_page(page):
    """Return docs/runbook.md with the rule of each alarm under its heading."""
    rules = {rule["alert"]: rule for rule in alerts()}
    return _SECTION.sub(lambda found: _head(found[1], rules.get(found[1])), page)


def _head(name, rule):
    if rule is None:
        return f"### {name}\n\n"
    expression = " ".join(rule["expr"].split()).replace("( ", "(").replace(" )", ")")
    wait = f" for {rule['for']}" if "for" in rule else ""
    told = f"{rule['labels']['severity'].capitalize()}: {rule['annotations']['summary']}"
    return f"### {name}\n\n{quotation(told, f'`{expression}`{wait}')}\n\n"
