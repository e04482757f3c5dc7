"""CPU time and memory of processes that work for us, read from outside them."""

import time
from collections.abc import Callable, Iterable

import psutil


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and what it started have used, ended children included."""
    root = psutil.Process(pid)
    return sum(_cpu_seconds(process) for process in [root, *root.children(recursive=True)])


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process, with what it shares with others."""
    return psutil.Process(pid).memory_info().rss / 2**20


def tree_mib(pid: int) -> float:
    """Return the memory of a process and what it started, each shared page counted once.

    What others share with them counts too, as it does in a container of their own.
    """
    root = psutil.Process(pid)
    found = [process.memory_full_info() for process in [root, *root.children(recursive=True)]]
    largest = max(found, key=lambda memory: memory.rss)
    return (largest.rss + sum(memory.uss for memory in found if memory is not largest)) / 2**20


def own_mib(pid: int) -> float:
    """Return the memory that a process shares with nobody."""
    return psutil.Process(pid).memory_full_info().uss / 2**20


def cpu_meter(pids: Iterable[int] = (), *, own: bool = True) -> Callable[[], float]:
    """Return a meter of CPU seconds, of these processes with their children and of this one alone.

    The operating system counts other processes in hundredths of a second: measure many rounds.
    """
    trees = list(pids)

    def read() -> float:
        mine = time.process_time() if own else 0.0
        return mine + sum(map(tree_cpu_seconds, trees))

    return read


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # its time is with its parent now
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return times.user + times.system + ended
