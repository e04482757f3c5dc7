"""Builders with defaults: a test shows only what it is about."""

from shared.domain.columns import Column


def a_column(*, id="c1", name="column", type="text", options=()):
    """Return a column; options are those of a select column alone."""
    return Column(id=id, name=name, type=type, options=options if type == "select" else ())
