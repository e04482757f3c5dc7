"""A service that dies hard at a named point, without a hook in the product.

``python -m tests.e2e.failpoints services.worker package.module:Class.method after 1`` runs the
service with that function wrapped: its first call is made, and then the process is gone, with no
clean-up of any kind, as by kill -9. ``before`` dies instead of making the call.
"""

import importlib
import itertools
import os
import runpy
import sys
from dataclasses import dataclass

STATUS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a process dies: before or after the ``call``-th call of the function at ``target``.

    The target is the name under which its caller knows the function.
    """

    target: str
    when: str
    call: int = 1

    def __str__(self):
        return f"{self.when} call {self.call} of {self.target}"

    def arguments(self, service):
        """Return what ``python -m`` needs to run a service that dies here."""
        return ["tests.e2e.failpoints", service, self.target, self.when, str(self.call)]


def before(target, *, call=1):
    return Point(target=target, when="before", call=call)


def after(target, *, call=1):
    return Point(target=target, when="after", call=call)


def arm(point):
    """Wrap the function of a point."""
    module, _, path = point.target.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    function = getattr(owner, name)
    calls = itertools.count(1)

    def dying(*arguments, **keywords):
        is_last = next(calls) == point.call
        if is_last and point.when == "before":
            os._exit(STATUS)
        result = function(*arguments, **keywords)
        if is_last:
            os._exit(STATUS)
        return result

    setattr(owner, name, dying)


if __name__ == "__main__":
    service, target, when, call = sys.argv[1:]
    arm(Point(target=target, when=when, call=int(call)))
    runpy.run_module(service, run_name="__main__")
