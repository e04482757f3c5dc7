"""What docs/settings.md says of each key, in a table for those who read the same."""

from shared.settings import KEYS
from tests.pages.generated import table, with_part

_READERS = {
    "Every process": ("api", "scanner", "worker"),
    "API and worker": ("api", "worker"),
    "Scanner and worker": ("scanner", "worker"),
    "API": ("api",),
    "Scanner": ("scanner",),
    "Worker": ("worker",),
}


def settings_page(page):
    """Return docs/settings.md with its tables of keys. Raises ValueError if a key is in none."""
    if homeless := [name for name, key in KEYS.items() if key.read_by not in _READERS.values()]:
        raise ValueError(f"no table has {', '.join(homeless)}")
    return with_part(page, "keys", "\n\n".join(map(_section, _READERS)))


def _section(title):
    rows = [
        (f"`{name}`", _default(key), key.values, key.means)
        for name, key in KEYS.items()
        if key.read_by == _READERS[title]
    ]
    return f"### {title}\n\n{table(('key', 'default', 'values', 'means'), rows)}"


def _default(key):
    if key.required_by:
        return "required"
    default = key.told_default
    if default is None:
        return "none"
    return f"`{default}`" if ":" in str(default) else str(default)
