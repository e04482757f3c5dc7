import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

from tests.image.dockerfile import (
    DOCKERFILE,
    ROOT,
    command_of_image,
    documented_commands,
    ignore_lines,
    instructions,
    stages,
)

_HADOLINT = Path(sysconfig.get_path("scripts")) / "hadolint"


def _complaints(path):
    done = subprocess.run([_HADOLINT, "--no-color", path], capture_output=True, text=True)
    return done.stdout.splitlines() + done.stderr.splitlines()


def _words(word):
    return [each.rest for each in instructions() if each.word == word]


def test_hadolint_has_nothing_to_say():
    assert _complaints(DOCKERFILE) == []


def test_hadolint_would_say_it(tmp_path):
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nRUN pip install flask\n")

    assert [line.split()[1] for line in _complaints(bad)] == ["DL3007", "DL3013", "DL3042"]


def test_what_is_copied_is_there_and_nothing_else_gets_into_the_context():
    copied = {
        path.rstrip("/") for each in instructions() if each.word == "COPY" for path in each.copied
    }
    everything, *let_through = [line for line in ignore_lines() if line != "**/__pycache__"]

    assert [path for path in sorted(copied) if not (ROOT / path).exists()] == []
    assert everything == "*"
    assert {line.removeprefix("!") for line in let_through} == copied


def test_every_stage_has_the_one_base_which_names_its_release():
    [(name, image)] = [argument.split("=", 1) for argument in _words("ARG")]

    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", image)
    assert {base.split()[0] for base in _words("FROM")} == {f"${{{name}}}"}


def test_what_is_installed_is_locked():
    installs = [run for run in re.split(r"&&|\n", "\n".join(_words("RUN"))) if " install " in run]

    assert len(installs) == 3
    assert all("--require-hashes" in run or "--no-index" in run for run in installs)


def test_the_image_is_nobody_and_runs_what_it_is_told_without_a_shell():
    words = {each.word: each.rest for each in stages()[-1]}

    assert words["USER"] == "10001:10001"
    assert words["STOPSIGNAL"] == "SIGTERM"
    assert "ENTRYPOINT" not in words
    assert shlex.join(command_of_image()) in documented_commands()
