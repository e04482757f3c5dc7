"""What happened when, written while it happens: the first thing to read when a run has failed."""

import threading
import time


class Timeline:
    """A file of lines: seconds since the beginning, what, and about what."""

    def __init__(self, path):
        self.path = path
        self.began_at = time.time()
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def write(self, what, about=""):
        with self._lock:
            if not self._file.closed:
                self._file.write(f"{time.time() - self.began_at:9.3f}  {what:<12} {about}\n")

    def close(self):
        with self._lock:
            self._file.close()
