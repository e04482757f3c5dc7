"""docs/events.md names every event that the product logs, with its level, and no other."""

import ast
import re

from tests.architecture.source import ROOT, modules, tree

_LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
}
_ROW = re.compile(r"^\| `([a-z_]+)` \| ([a-z]+) \|", re.MULTILINE)


def logged_events():
    for path in modules("services", "shared"):
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="_log"), attr=method),
                    args=[ast.Constant(value=event), *_],
                ):
                    yield event, _LEVELS[method]


def test_the_page_of_events_and_the_code_name_the_same():
    page = (ROOT / "docs" / "events.md").read_text()

    documented = set(_ROW.findall(page))

    assert documented == set(logged_events())
