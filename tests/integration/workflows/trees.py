"""Random trees of workflow nodes: every type of node, in lists up to the greatest depth.

Each action tells its label and ``$event.n``, the number of the event that led to it, so that its
effect can be told from any other's.
"""

from hypothesis import strategies as st

from shared.domain.workflow_faults import workflow_faults
from shared.domain.workflows import LISTS, MAX_LEVELS
from tests.integration.worker.runs import CHATROOM
from tests.integration.worker.waits import TARGET

CHILD = "child"
TELLING = "$event.n"

HOUR = 3600
_BUSHY_LEVELS = 3
_PREDICATES = (
    {"column": "event.vip", "op": "eq", "value": True},
    {"column": "line_user.level", "op": "gte", "value": 2},
    {"column": "line_user.level", "op": "not_empty"},
    {"column": "line_user.level", "op": "neq", "value": 1},
)

_notify = st.builds(
    lambda delay: {"type": "notify", "chatroom_id": CHATROOM} | delay,
    st.sampled_from([{}, {}, {}, {"delay": {"seconds": HOUR}}]),
)
_record = st.just({"type": "create_record"})
_call = st.builds(
    lambda answers, more: {
        "type": "api_call",
        "method": "POST",
        "headers": {"X-Answers": answers},
        **more,
    },
    st.sampled_from(["200", "200", "503 200", "503 503 200", "400"]),
    st.fixed_dictionaries(
        {}, optional={"on_unknown": st.just("fail"), "on_error": st.just("continue")}
    ),
)
_start = st.just({"type": "start_workflow", "workflow": CHILD})
_delay = st.just({"type": "delay", "seconds": HOUR})
_stop = st.just({"type": "stop"})


def _acting(actions):
    return st.builds(lambda action: {"type": "action", "action": action}, actions)


def _waiting(clicked, not_clicked):
    base = {"type": "wait_for_tracking", "seconds": HOUR, "target_url": TARGET}
    lists = {"clicked": clicked, "not_clicked": not_clicked}
    return st.fixed_dictionaries({}, optional=lists).map(lambda lists: base | lists)


def _branching(then, otherwise):
    when = st.lists(st.sampled_from(_PREDICATES), max_size=2)
    required = {"type": st.just("branch"), "when": when}
    return st.fixed_dictionaries(required, optional={"then": then, "else": otherwise})


def _leaves(*, may_start):
    actions = [_notify, _notify, _record, _call, _call, *([_start] if may_start else [])]
    return st.one_of(*map(_acting, actions), _delay)


def _bushy(levels, *, may_start, least=0):
    """Lists of a few nodes, some of which have lists of their own."""
    leaves = _leaves(may_start=may_start)
    if levels == 1:
        return st.lists(st.one_of(leaves, leaves, _stop), max_size=3)
    inner = _bushy(levels - 1, may_start=may_start)
    parents = [_waiting(inner, inner), _branching(inner, inner)]
    nodes = st.one_of(leaves, leaves, leaves, *parents, parents[0], _stop)
    return st.lists(nodes, min_size=least, max_size=4)


def _spine(levels, *, may_start):
    """A few nodes, one of which has such a list, and so on to the last level."""
    leaves = st.lists(_leaves(may_start=may_start), max_size=1)
    if levels == 1:
        return leaves
    inner = _spine(levels - 1, may_start=may_start)
    parent = st.one_of(
        _waiting(inner, leaves),
        _waiting(leaves, inner),
        _branching(inner, leaves),
        _branching(leaves, inner),
    )
    return st.builds(lambda before, node, after: [*before, node, *after], leaves, parent, leaves)


TREES = st.one_of(
    *[_bushy(_BUSHY_LEVELS, may_start=True, least=1)] * 2,
    st.integers(2, MAX_LEVELS).flatmap(lambda levels: _spine(levels, may_start=True)),
)
"""The nodes of a workflow that could be saved, still without what ``labelled`` adds."""

SMALL_TREES = _bushy(2, may_start=False, least=1)
"""The nodes of one that starts no other."""


def labelled(nodes, *, name, table_id, url):
    """Return a copy of the nodes, complete: what each action tells, and each link's name."""

    def copied(siblings, prefix):
        return [finished(node, f"{prefix}{index}") for index, node in enumerate(siblings)]

    def finished(node, path):
        lists = {
            key: copied(node[key], f"{path}.{key}.")
            for key in LISTS.get(node["type"], ())
            if key in node
        }
        return node | lists | own(node, path)

    def own(node, path):
        match node["type"]:
            case "wait_for_tracking":
                return {"link": "l" + path.replace(".", "_")}
            case "action":
                text = f"{name}:{path} {TELLING}"
                telling = _telling(text, table_id=str(table_id), url=url)
                return {"action": node["action"] | telling.get(node["action"]["type"], {})}
        return {}

    made = copied(nodes, "")
    assert workflow_faults(made) == []
    return made


def _telling(text, *, table_id, url):
    """Return by the type of an action what it is to have so that it tells a text."""
    return {
        "notify": {"message": text},
        "create_record": {"table_id": table_id, "data": {"title": text}},
        "api_call": {"url": url, "body": text},
    }
