"""Reading the repository: its files, and the syntax trees of its modules."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_OURS = {"build", "dist", "node_modules", "vendor", "swagger-ui", "__pycache__"}


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Return the repository's files with these suffixes ("" is none), as paths within it."""
    return tuple(sorted(path.relative_to(ROOT) for path in _walk(ROOT) if path.suffix in suffixes))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name not in (".ci", ".gitignore")
        if hidden or path.name in _NOT_OURS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def modules(*packages: str) -> list[Path]:
    """Return the Python files below these top folders."""
    return [path for path in files(".py") if path.parts[0] in packages]


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse((ROOT / path).read_text("utf-8"))


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string in a Python file that is not a docstring.

    The parts of an f-string are joined, with a blank for each value.
    """
    module = tree(path)
    docstrings = {id(node.value) for node in ast.walk(module) if _is_bare_string(node)}
    inner = set()
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            parts = [p.value if isinstance(p, ast.Constant) else " " for p in node.values]
            yield node.lineno, "".join(parts)
        elif _is_string(node) and id(node) not in inner | docstrings:
            yield node.lineno, node.value


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_bare_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and _is_string(node.value)


def names_called(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything called in a file, imports taken back to their roots.

    ``from time import sleep as nap; nap(1)`` is ``time.sleep``.
    """
    imported = dict(_imports(path))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and (name := _dotted(node.func)):
            first, dot, rest = name.partition(".")
            yield node.lineno, imported.get(first, first) + dot + rest


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return None
