"""Lists of what may be large: an answer stays small enough to be held, and no row is left out."""

import pytest

HALF = {f"a{number}": "x" * 320 for number in range(190)}


def webhook(payload):
    return {"type": "webhook", "url": "https://example.com", "payload": payload}


def a_workflow(number):
    nodes = [
        {"type": "action", "action": webhook("x" * 60_000)},
        *({"type": "action", "action": webhook("x" * 60_000)} for _ in range(3)),
    ]
    return {"name": f"w{number}", "nodes": nodes}


def a_rule(number):
    return {"name": f"r{number}", "event": f"e{number}", "actions": [webhook("x" * 120_000)]}


def a_contact(number):
    return {"external_id": f"c{number}", "attributes": HALF}


@pytest.mark.parametrize(
    ("path", "made", "count"),
    [
        ("/v1/line-users", a_contact, 140),
        ("/v1/trigger-rules", a_rule, 80),
        ("/v1/workflows", a_workflow, 40),
    ],
    ids=["contacts", "rules", "workflows"],
)
def test_a_page_of_large_rows_is_short_and_leads_on(moderator, path, made, count):
    ids = [moderator.post(path, json=made(number)).json["id"] for number in range(count)]

    found, sizes, cursor = [], [], ""
    while cursor is not None:
        answer = moderator.get(f"{path}?limit=1000{cursor and '&cursor=' + cursor}")
        found += [item["id"] for item in answer.json["items"]]
        sizes.append(len(answer.data))
        cursor = answer.json["next_cursor"]

    assert found == ids
    assert len(sizes) > 1
    assert max(sizes) < 9_000_000
