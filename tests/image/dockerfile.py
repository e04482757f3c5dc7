"""Reading deploy/Dockerfile and the files that go with it."""

import json
import re
import shlex
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
COMPOSE = ROOT / "deploy/compose.yaml"
_SETTINGS = (ROOT / "docs/settings.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its lines joined."""

    word: str
    rest: str

    @property
    def copied(self):
        """Of a COPY from the context: its sources. They may name a folder, with a slash."""
        paths = shlex.split(self.rest)
        return [] if paths[0].startswith("--from=") else paths[:-1]


def instructions():
    """Return the instructions of the Dockerfile, in order."""
    lines = [line for line in DOCKERFILE.read_text("utf-8").splitlines() if line[:1] != "#"]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parted = [line.partition(" ") for line in joined.splitlines() if line]
    return [Instruction(word, rest.strip()) for word, _, rest in parted]


def stages():
    """Return the instructions of each stage, without its FROM."""
    runs = groupby(instructions(), key=lambda each: each.word in ("FROM", "ARG"))
    return [list(run) for is_head, run in runs if not is_head]


def ignore_lines():
    """Return the lines of .dockerignore that say something."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def command_of_image():
    """Return the arguments that the image runs when nobody says otherwise."""
    [command] = [each.rest for each in stages()[-1] if each.word == "CMD"]
    return json.loads(command)


def compose():
    """Return the compose file, its anchors resolved."""
    return yaml.safe_load(COMPOSE.read_text("utf-8"))


def our_services():
    """Return those services of the compose file that run our image, by name."""
    return {name: each for name, each in compose()["services"].items() if "build" in each}


def documented_commands():
    """Return the commands of docs/settings.md's table of processes, as it writes them."""
    table = _SETTINGS.partition("## Processes")[2]
    return re.findall(r"^\| [^|]+ \| `([^`|]+)` \| `[^|]+ \|$", table, re.MULTILINE)


def documented_keys():
    """Return the keys that docs/settings.md explains."""
    rows = re.findall(r"^\| (`[^|]+) \|", _SETTINGS.partition("## Keys")[2], re.MULTILINE)
    return {key for row in rows for key in re.findall("`([A-Z_]+)`", row)}
