"""Where RabbitMQ's and Erlang's programs are; a private copy is made where there are none."""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.cli.embedded_postgres import refuse_foreign

_UNPACK = Path(__file__).parents[2] / "requirements/unpack_debs.sh"
_HELP = """RabbitMQ is needed for these tests.
Debian, Ubuntu: nothing to do, it is fetched.
macOS: brew install rabbitmq
Docker: docker compose up -d rabbitmq, and set AMQP_URL and AMQP_MANAGEMENT_URL
Elsewhere: install RabbitMQ 3.10 or newer and set RABBITMQ_SBIN to its folder sbin."""

# Debian's own erl has its root built in, so an unpacked copy needs another.
_ERL = """#!/bin/sh
export ROOTDIR={erlang} BINDIR={erts}/bin EMU=beam PROGNAME=erl
exec {erts}/bin/erlexec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """A RabbitMQ: its folder sbin, its epmd, and the environment in which they run."""

    sbin: Path
    epmd: str
    environment: dict[str, str]


def find_programs() -> Programs:
    """Return what is installed, else our private copy. Raises RuntimeError with what to do."""
    path = os.environ.get("PATH", os.defpath)
    for sbin in _installed():
        # Erlang keeps epmd beside its runtime, on some systems only there.
        runtimes = [str(erts / "bin") for erts in Path("/usr/lib/erlang").glob("erts-*")]
        found = shutil.which("epmd", path=os.pathsep.join([path, *runtimes]))
        if found is None:
            raise RuntimeError(f"{sbin} has RabbitMQ, but there is no epmd (Erlang) in PATH")
        return Programs(sbin=sbin, epmd=found, environment={"PATH": path})
    copy = _private_copy()
    erts = next((copy / "root/usr/lib/erlang").glob("erts-*"))
    return Programs(
        sbin=next((copy / "root/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin")),
        epmd=str(erts / "bin/epmd"),
        environment={"PATH": f"{copy / 'bin'}:{erts.parent / 'bin'}:{path}"},
    )


def _installed() -> Iterator[Path]:
    if chosen := os.environ.get("RABBITMQ_SBIN"):
        yield Path(chosen)
    # Not /usr/sbin/rabbitmq-server: that one changes user and folder, or refuses.
    yield from Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin")
    yield from Path("/opt/homebrew/opt/rabbitmq").glob("sbin")


def _private_copy() -> Path:
    system = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    name = f"{system.get('ID')}{system.get('VERSION_ID')}-{platform.machine()}"
    folder = Path("/var/tmp") / f"duebook-rabbitmq-{os.getuid()}-{name}"
    if not folder.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise RuntimeError(_HELP)
        _make_copy(folder)
    refuse_foreign(folder)
    return folder


def _make_copy(folder: Path) -> None:
    # Beside it, then renamed: two sessions never meet half a copy. Its place is written into erl,
    # hence after the unpacking and for the final name.
    copy = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    arguments = [str(copy), "rabbitmq-server", "erlang-[a-z0-9-]+"]
    done = subprocess.run(
        [_UNPACK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        shutil.rmtree(copy)
        raise RuntimeError(f"{_HELP}\nIt could not be fetched:\n{done.stdout[-3000:]}")
    erts = next((copy / "root/usr/lib/erlang").glob("erts-*"))
    final = folder / erts.relative_to(copy)
    (copy / "bin").mkdir()
    (copy / "bin/erl").write_text(_ERL.format(erlang=final.parent, erts=final))
    (copy / "bin/erl").chmod(0o755)
    try:
        copy.rename(folder)
    except OSError:  # the other session was first
        shutil.rmtree(copy)
