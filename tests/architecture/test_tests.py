import ast
import re

from tests.architecture.source import modules, names_called, tree

_SKIPS = re.compile(r"pytest\.(skip|xfail|importorskip)|pytest\.mark\.(skip|skipif|xfail)")
_MOCKS = re.compile(r"(unittest\.)?mock(\..*)?")


def _decorators(path):
    for node in ast.walk(tree(path)):
        for decorator in getattr(node, "decorator_list", []):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            yield node.lineno, ast.unparse(target)


def _is_mock(node):
    if isinstance(node, ast.ImportFrom):
        return _MOCKS.fullmatch(node.module or "")
    return isinstance(node, ast.Import) and any(_MOCKS.fullmatch(a.name) for a in node.names)


def test_no_test_is_skipped():
    found = [
        f"{path}:{line}"
        for path in modules("tests")
        for line, name in [*names_called(path), *_decorators(path)]
        if _SKIPS.fullmatch(name)
    ]

    assert found == []


def test_no_test_replaces_a_real_part_by_a_mock():
    found = [
        str(path) for path in modules("tests") for node in ast.walk(tree(path)) if _is_mock(node)
    ]

    assert found == []
