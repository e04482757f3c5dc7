"""Where Prometheus' promtool is; a private copy of the one file is made where there is none."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from services.cli.embedded_postgres import refuse_foreign

_UNPACK = Path(__file__).parents[2] / "requirements/unpack_debs.sh"
_HELP = """Prometheus' promtool is needed for these tests.
Debian, Ubuntu: nothing to do, it is fetched.
macOS: brew install prometheus
Elsewhere: install Prometheus 2.40 or newer, or set PROMTOOL to the program."""


def find_promtool() -> Path:
    """Return the program: what is installed, else our copy. Raises RuntimeError with what to do."""
    if chosen := os.environ.get("PROMTOOL") or shutil.which("promtool"):
        return Path(chosen)
    system = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    name = f"{system.get('ID')}{system.get('VERSION_ID')}-{platform.machine()}"
    folder = Path("/var/tmp") / f"duebook-promtool-{os.getuid()}-{name}"
    if not folder.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise RuntimeError(_HELP)
        _make_copy(folder)
    refuse_foreign(folder)
    return folder / "promtool"


def _make_copy(folder: Path) -> None:
    # Beside it, then renamed: two sessions never meet half a copy.
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as parent:
        unpacked, copy = Path(parent) / "unpacked", Path(parent) / "copy"
        done = subprocess.run(
            [_UNPACK, str(unpacked), "prometheus"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        program = unpacked / "root/usr/bin/promtool"
        if done.returncode != 0 or not program.exists():
            raise RuntimeError(f"{_HELP}\nIt could not be fetched:\n{done.stdout[-3000:]}")
        copy.mkdir(mode=0o755)
        program.rename(copy / "promtool")
        try:
            copy.rename(folder)
        except OSError:  # the other session was first
            if not folder.exists():
                raise
