"""Walks over the whole document: what is made is used, changed and deleted again, by chance.

No step may end in a 5xx or in an answer that the document does not have, and every operation has to
be reached: answered as one that did what was asked.
"""

import random

import pytest

from tests.integration.document.errands import ERRANDS, EXECUTE
from tests.integration.document.reading import Document
from tests.integration.document.walking import Walk

SCOPES = ("", "root.", "channel.")
LEGS = len(SCOPES) * len(ERRANDS)
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


def test_no_walk_leaves_the_document(walk, bench):
    def step(operation, over=None):
        fault = walk.step(operation, over)
        assert fault is None, "\n".join([*walk.story[-5:], fault])

    for leg in range(LEGS):
        scope = SCOPES[leg % len(SCOPES)]
        for name, over in ERRANDS[leg // len(SCOPES)]:
            if name is EXECUTE:
                bench.execute()
            else:
                step(BY_ID.get(scope + name) or BY_ID[name], over)
        for _ in range(STEPS):
            missing = [one for one in DOCUMENT.operations if one.id not in walk.reached]
            if missing and walk.chance.random() < 0.5:
                step(walk.chance.choice(missing), walk.chance.choice([{}, None]))
            else:
                step(walk.chance.choice(DOCUMENT.operations))
        if leg % 10 == 9:
            bench.hurry()

    assert {*BY_ID} - walk.reached == set()
