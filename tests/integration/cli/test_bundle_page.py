"""The example of docs/bundles.md, command by command."""

import re
import shlex
import shutil
import subprocess

from tests.architecture.source import ROOT


def commands():
    """Return the commands of the page's example, each with what the page says that it prints."""
    page = (ROOT / "docs/bundles.md").read_text("utf-8")
    [example] = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [
        (line.strip(), printed)
        for line, printed in re.findall(r"^\$ (.*)\n((?:(?!\$).*\n)*)", example, re.MULTILINE)
    ]


def test_the_example_of_the_page_prints_what_the_page_says(on_api, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    monkeypatch.chdir(tmp_path)

    found = commands()
    for line, printed in found:
        words = shlex.split(line.partition(" > ")[0])
        if words[0] == "duebook":
            done = on_api.run(*words[1:])
            assert done.exit_code in (0, 2), done.output
            assert ("" if " > " in line else done.stdout) == printed, line
        else:
            subprocess.run(words, check=True)

    assert [line.split()[1] for line, _ in found] == [
        "plan", "apply", "plan", "export", "-i", "plan",
    ]  # fmt: skip
