"""What docs/kubernetes.md says of each value of the chart."""

import json
import re
from collections import Counter

from tests.pages.generated import table, with_part
from tests.pages.values_schema import CHART, VALUES, resolved

_SECTIONS = {
    "Names and image": ("nameOverride", "fullnameOverride", "image"),
    "Environment": ("settings", "secretsAs", "certificateAuthorities"),
    "Pods": (
        *("serviceAccount", "podAnnotations", "podLabels", "podSecurityContext"),
        *("containerSecurityContext", "nodeSelector", "tolerations", "affinity"),
        "spreadOverNodes",
    ),
    "Profiles": ("profiles",),
    "Migration": ("migrate",),
    "Service and Ingress": ("service", "ingress"),
    "Network": ("networkPolicy",),
    "Monitoring": ("monitoring",),
}
_WIDTH = 120
_PAGE = re.compile(r"docs/([\w-]+\.md)")


def kubernetes_page(page):
    """Return docs/kubernetes.md with its tables. Raises ValueError if a value is in none."""
    at_home = {name for names in _SECTIONS.values() for name in names}
    if homeless := VALUES.keys() - at_home:
        raise ValueError(f"no table has {', '.join(sorted(homeless))}")
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return with_part(page, "values", "\n\n".join(_section(schema, title) for title in _SECTIONS))


def _section(schema, title):
    rows = []
    for name in _SECTIONS[title]:
        node = schema["properties"][name]
        if name == "profiles":
            rows += _profiles(schema, node, VALUES[name])
        else:
            rows += _rows(schema, name, {"": node}, {"": VALUES[name]})
    return f"### {title}\n\n{table(('value', 'default', 'means'), rows)}"


def _profiles(schema, node, values):
    """Return what each profile is, then once what all of them have."""
    each = [
        (f"`profiles.{name}`", "", of["description"]) for name, of in node["properties"].items()
    ]
    return [*each, *_below(schema, "profiles.*", node["properties"], values)]


def _rows(schema, path, nodes, values):
    """Return the row of a value and those below it; nodes and values are by the profile."""
    means = {resolved(schema, node)["description"] for node in nodes.values()}
    if len(means) > 1:
        raise ValueError(f"{path} has several meanings")
    rows = list(_below(schema, path, nodes, values))
    if len(rows) == 1 and "[]" not in rows[0][0]:
        return rows
    return [_row(path, {} if _is_group(schema, nodes) else values, means.pop()), *rows]


def _is_group(schema, nodes):
    return any("properties" in resolved(schema, node) for node in nodes.values())


def _below(schema, path, nodes, values):
    below = {}
    for profile, node in nodes.items():
        known = resolved(schema, node)
        for name, one in known.get("properties", {}).items():
            below.setdefault((path, ".", name), {})[profile] = one
        for name, one in known.get("items", {}).get("properties", {}).items():
            below.setdefault((path, "[].", name), {})[profile] = one
    for at, one in below.items():
        _, between, name = at
        given = {
            profile: value[name]
            for profile, value in values.items()
            if between == "." and name in value
        }
        # Settings without a value here are those of docs/settings.md.
        if given or not name.isupper():
            yield from _rows(schema, "".join(at), one, given)


def _row(path, values, means):
    means = _PAGE.sub(r"[\1](\1)", means)
    row = (f"`{path}`", _default(values), means)
    return row if len(" | ".join(row)) + 4 <= _WIDTH else (row[0], "in values.yaml", means)


def _default(values):
    """Return the default that most profiles have, and whose is another."""
    texts = {of: _text(value) for of, value in values.items()}
    if len(set(texts.values())) > 1:
        texts = {of: _named(text, of) for of, text in texts.items()}
    [(most, _)] = Counter(texts.values()).most_common(1) or [("", 0)]
    others = ", ".join(f"`{of}` {text}" for of, text in texts.items() if text != most)
    return f"{most} ({others})" if others else most


def _named(text, profile):
    return "the profile's name" if text == profile else text.replace(profile, "*")


def _text(value):
    if value in ("", [], {}):
        return "empty"
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(_text, value))
        case dict():
            return ", ".join(f"{key}: {_text(of)}" for key, of in value.items())
        case str() if re.search("[:/]", value):
            return f"`{value}`"
    return str(value)
