"""Text of pages that is written from the code: where it goes, and how it is laid out.

A part stands between two comments that name it; what is around it is written by hand.
"""

import re
import textwrap

_WIDTH = 120
_PART = "<!-- {name}: written by `make docs` -->{text}<!-- end of {name} -->"


def with_part(page, name, text):
    """Return the page with its part ``name`` as it should be. Raises ValueError if it has none."""
    old = re.compile(_PART.format(name=name, text=".*?"), re.DOTALL)
    page, found = old.subn(lambda _: _PART.format(name=name, text=f"\n\n{text}\n\n"), page)
    if found != 1:
        raise ValueError(f"the page has {found} parts {name}")
    return page


def item(text):
    """Return an item of a list, wrapped."""
    return _wrapped(text, first="- ", others="  ")


def quotation(*texts):
    """Return a quotation of texts, each on lines of its own, wrapped."""
    return "\n".join(_quoted(text) for text in texts)


def _quoted(text):
    # A line that began with the sign would be a quotation within the quotation.
    return _wrapped(text.replace(" >", "\0>"), first="> ", others="> ").replace("\0", " ")


def _wrapped(text, *, first, others):
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(head, rows):
    """Return a table of cells."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
