"""The commands of an operator's page, run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from services.cli.embedded_postgres import find_binaries
from tests.e2e.installation import ROOT

PASSWORD = "a-password-of-the-page"
SECONDS = 300

_SECTION = re.compile(r"^#+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Operator:
    """Somebody who follows a page of docs/ in a folder of their own.

    The environment is what the page says that it is; a ``…`` in quotes is a password.
    """

    def __init__(self, page, *, folder, binaries=None, **environment):
        parts = _SECTION.split((ROOT / "docs" / page).read_text("utf-8"))
        self._sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        self.folder = folder
        programs = [str(Path(sys.executable).parent), str(binaries or find_binaries())]
        self.environment = {
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "HOME": str(folder),
            **environment,
        }

    def blocks(self, heading, *, language="sh"):
        """The blocks in a language below a heading."""
        found = _BLOCK.findall(self._sections[heading])
        return [text.replace("'…'", f"'{PASSWORD}'") for name, text in found if name == language]

    def follow(self, heading, number=0, **popen):
        """Run the commands of a block below a heading; return what they said."""
        return self.run(self.blocks(heading)[number], **popen)

    def run(self, commands, **popen):
        """Run commands of a shell, each of which has to end well; return what they said."""
        done = subprocess.run(
            ["sh", "-eu", "-c", commands],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            **popen,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout
