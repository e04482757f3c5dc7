"""Walks over the whole document: what is made is used, changed and deleted again, by chance.

No step may end in a 5xx or in an answer that the document does not have, and every operation has to
be reached: answered as one that did what was asked.
"""

import random
from itertools import chain

import pytest

from tests.integration.document.errands import ERRANDS, EXECUTE
from tests.integration.document.reading import Document
from tests.integration.document.walking import Walk

SCOPES = ("", "root.", "channel.")
LEGS = len(SCOPES) * len(ERRANDS)
MOST_LEGS = 3 * LEGS  # what takes longer needs an errand of its own
STEPS = 20
DOCUMENT = Document()
BY_ID = {operation.id: operation for operation in DOCUMENT.operations}


@pytest.fixture(params=[1, 2])
def walk(request, admin, moderator, channel_moderator, service, viewer, editor, stranger, tenant):
    callers = {
        "root": [admin],
        "tenant": [moderator, editor, viewer, service, stranger],
        "channel": [channel_moderator, moderator],
        "v1": [moderator, admin, service, viewer],
        "t": [viewer],
    }
    return Walk(
        document=DOCUMENT,
        chance=random.Random(request.param),
        callers=callers,
        tenant_id=str(tenant.id),
    )


def missing(walk):
    return [one for one in DOCUMENT.operations if one.id not in walk.reached]


def errand(leg):
    """Yield (operation, parts of its body) of an errand in one of the scopes."""
    scope = SCOPES[leg % len(SCOPES)]
    for name, over in ERRANDS[leg // len(SCOPES) % len(ERRANDS)]:
        yield (EXECUTE if name is EXECUTE else BY_ID.get(scope + name) or BY_ID[name]), over


def by_chance(walk):
    """Yield steps by chance, half of them towards what was never reached."""
    for _ in range(STEPS):
        towards = missing(walk) if walk.chance.random() < 0.5 else None
        over = walk.chance.choice([{}, None]) if towards else None
        yield walk.chance.choice(towards or DOCUMENT.operations), over


def test_no_walk_leaves_the_document(walk, bench):
    for leg in range(MOST_LEGS):
        if leg >= LEGS and not missing(walk):
            break
        for operation, over in chain(errand(leg), by_chance(walk)):
            if operation is EXECUTE:
                bench.execute()
                continue
            fault = walk.step(operation, over)
            assert fault is None, "\n".join([*walk.story[-5:], fault])
        if leg % 10 == 9:
            bench.hurry()

    assert [one.id for one in missing(walk)] == []
