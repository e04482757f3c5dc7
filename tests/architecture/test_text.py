import re
from pathlib import Path

import click

from services.cli.main import main
from tests.architecture.source import ROOT, files, modules, names_called

_SUFFIXES = (".py", ".md", ".sql", ".toml", ".sh", ".json", ".yaml", ".yml", ".in", ".txt", "")
_MAX_LINE = 120
_GENERATED = {"docs/schema.sql"}

# In pieces, so that this file does not hold what it looks for.
_MACHINE_PATHS = re.compile("|".join(["/" + "work/", "/" + r"home/\w+/", re.escape(str(ROOT))]))
_PACKAGE_HOSTS = re.compile(
    "|".join(
        [
            r"\bpypi\." + "org",
            "python" + "hosted",
            r"\bdeb\.debian\." + "org",
            "registry" + r"\.npmjs",
            "--(extra-)?" + "index-url",
        ]
    )
)


def _texts():
    for path in files(*_SUFFIXES):
        if "cases" not in path.parts:
            yield str(path), (ROOT / path).read_text("utf-8")


def _lines_with(pattern):
    return [
        f"{path}:{number}"
        for path, text in _texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_every_file_ends_with_one_newline():
    assert [path for path, text in _texts() if text and not re.search(r"\S\n\Z", text)] == []


def test_no_line_is_longer_than_a_page_is_wide():
    too_long = re.compile(rf"^.{{{_MAX_LINE + 1}}}")

    assert [at for at in _lines_with(too_long) if at.partition(":")[0] not in _GENERATED] == []


def test_no_line_ends_in_blanks_or_has_foreign_ends():
    assert [path for path, text in _texts() if re.search(r"[ \t\r]\n", text)] == []


def test_no_file_names_a_path_of_somebodys_machine():
    assert _lines_with(_MACHINE_PATHS) == []


def test_no_file_names_a_package_host():
    assert _lines_with(_PACKAGE_HOSTS) == []


def test_the_make_targets_that_texts_name_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        target
        for path in files(".md")
        for target in re.findall(r"`(?:\$ )?make ([a-z]+)", (ROOT / path).read_text("utf-8"))
    }

    assert named <= targets
    assert {"run", "test", "check"} <= targets


def test_the_duebook_commands_that_texts_name_exist():
    written = re.compile(r"(?:^|[`/]|\$ )duebook ([a-z]+(?:-[a-z]+)*)", re.MULTILINE)
    known = set(main.list_commands(click.Context(main)))
    named = {
        command
        for path in (*files(".md"), Path("Makefile"))
        for command in written.findall((ROOT / path).read_text("utf-8"))
    }

    assert named <= known
    assert {"dev", "migrate"} <= named


def test_continuous_integration_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text("utf-8")

    assert "make test" in readme
    assert "make test" in (ROOT / ".ci/run").read_text("utf-8")


def test_commands_print_through_what_writes_out_control_characters():
    # What `duebook dev` says is all of its own.
    own = {"services/cli/output.py", "services/cli/dev.py", "services/cli/commands/dev.py"}
    printing = [
        f"{path}:{line}"
        for path in modules("services")
        if path.is_relative_to("services/cli") and str(path) not in own
        for line, name in names_called(path)
        if name in ("click.echo", "click.secho", "print")
    ]

    assert printing == []
