"""Where the servers of a test session keep their files."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 1_000_000_000


@contextmanager
def temporary_folder(purpose: str, *, room: int = _ROOM) -> Iterator[Path]:
    """Make a folder in memory, or on disk when memory is short; other users may pass through.

    ``room`` is how many bytes must be free for it to be in memory.
    """
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > room
    name = tempfile.mkdtemp(prefix=f"duebook-{purpose}-", dir=_MEMORY if roomy else None)
    folder = Path(name)
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
