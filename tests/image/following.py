"""The nearest thing to a build where no Docker is: the Dockerfile's own steps, below a folder.

Its absolute paths become paths below that folder; what the last stage does not copy is removed, and
nobody may write what is left. The base image is an interpreter of this machine, with the pip of the
tests' environment.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tests.image.dockerfile import ROOT, stages

_PLACES = re.compile(r"(?<![\w.])/(?=(?:app|opt|src)\b)")
_SYSTEM_FOLDERS = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What came of the steps."""

    root: Path
    environment: dict[str, str]
    run_as: dict[str, object]  # Popen's arguments: where, and as whom where that can be chosen

    def files(self):
        """Return each file and folder with its time and size: any write would change one."""
        found = [(path, path.lstat()) for path in sorted(self.root.rglob("*"))]
        return {path: (status.st_mtime_ns, status.st_size) for path, status in found}


@contextmanager
def followed() -> Iterator[Image]:
    """Follow the steps; the folder is removed behind the block."""
    with _folder() as base, _folder() as root:
        steps = _Steps(root, _base_image(base))
        build, last = stages()
        for each in (*build, *last):
            steps.follow(each)
        steps.remove_all_but_the_copied()
        _take_writing(root)
        yield Image(root=root, environment=steps.environment, run_as=steps.run_as())


class _Steps:
    """Where one is between two instructions. ``environment`` is that of the image alone."""

    def __init__(self, root, base):
        self._root = root
        self._path = f"{base}:{os.defpath}"
        self._workdir = root
        self._copied = []
        self._user = None
        self.environment = {"PATH": self._path}

    def follow(self, each):
        match each.word:
            case "ENV":
                self._set(each.rest)
            case "WORKDIR":
                self._workdir = Path(self._here(each.rest))
                self._workdir.mkdir(parents=True, exist_ok=True)
            case "COPY" if each.copied:
                self._copy(each.copied, self._here(shlex.split(each.rest)[-1]))
            case "COPY":
                self._keep(*each.rest.split()[1:])
            case "RUN":
                self._run(self._here(each.rest))
            case "USER":
                self._user = each.rest
            case "EXPOSE" | "STOPSIGNAL" | "CMD":
                pass
            case unknown:
                raise NotImplementedError(f"no test knows how to follow {unknown}")

    def remove_all_but_the_copied(self):
        """Leave what the last stage has, and its working directory."""
        for entry in [*self._root.iterdir(), *(self._root / "opt").iterdir()]:
            if not any(kept.is_relative_to(entry) for kept in self._copied):
                shutil.rmtree(entry)

    def run_as(self):
        """Return Popen's arguments; who is not root can be nobody else."""
        arguments = {"cwd": self._workdir}
        if os.geteuid() == 0:
            user, group = map(int, self._user.split(":"))
            arguments |= {"user": user, "group": group, "extra_groups": []}
        return arguments

    def _here(self, text):
        return _PLACES.sub(f"{self._root}/", text)

    def _set(self, text):
        for pair in shlex.split(text):
            name, _, value = pair.partition("=")
            expanded = Template(self._here(value)).substitute(PATH=self._path)
            self.environment[name] = expanded

    def _copy(self, sources, target):
        for source in sources:
            goal = self._workdir / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, goal, ignore=shutil.ignore_patterns("__pycache__"))
                continue
            if target.endswith("/"):
                goal /= Path(source).name
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, goal)

    def _keep(self, source, target):
        # The programs in it name their interpreter by its path.
        assert source == target
        self._copied.append(Path(self._here(target)))

    def _run(self, command):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._workdir,
            # The machine's own say where pip finds packages.
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"


def _base_image(folder):
    """Make the programs of the base image that the steps use, and return their folder."""
    for name, command in (("python", _interpreter()), ("pip", f"{sys.executable} -m pip")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    return folder


def _interpreter():
    """Return an interpreter of our release, one that everybody may run if there is one."""
    ours = Path(sys.base_prefix) / "bin/python3"
    named = f"python3.{sys.version_info.minor}"
    system = shutil.which(named, path=_SYSTEM_FOLDERS)
    return ours if system is None or _everybody_can_reach(ours) else Path(system)


def _everybody_can_reach(path):
    real = path.resolve()
    return all(each.stat().st_mode & 0o001 for each in (real, *real.parents))


@contextmanager
def _folder():
    """Make a folder through which everybody may pass; not in memory, where nothing may be run."""
    folder = Path(tempfile.mkdtemp(prefix="duebook-image-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(folder)


def _take_writing(root):
    for path in [*root.rglob("*"), root]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
