"""Instants as a person reads them: beside now, and on the clock of a schedule's zone."""

from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span_text(seconds: float) -> str:
    """Return a length of time in its two largest units: ``2 d 3 h``, ``45 s``."""
    left = round(seconds)
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"


def beside(at: str, now: str) -> str:
    """Return where an instant lies from another: ``in 2 h``, ``3 d 1 h ago``, ``now``."""
    seconds = (_instant(at) - _instant(now)).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {span_text(seconds)}" if seconds > 0 else f"{span_text(-seconds)} ago"


def on_the_clock(window: dict[str, object]) -> str:
    """Return a window of the API as its zone shows it: ``2026-03-08 03:30 -04:00``."""
    local, offset = str(window["local"]), str(window["offset"])
    minute = local[:16].replace("T", " ")
    return f"{minute} {'UTC' if offset == '+00:00' else offset}"


def _instant(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read.replace(tzinfo=read.tzinfo or UTC)
