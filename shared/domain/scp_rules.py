"""Channel SCP rules: which chatrooms of a channel may do what with a table's records.

A table without rules is open to its channel. One with rules has no triggers: these act for nobody.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from shared.domain.faults import MAX_TOLD, child, cut, unknown_key, unknown_keys
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.errors import Conflict, Fault, InvalidInput

Operation = Literal["read", "create", "update", "delete"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

_KEYS = ("operations", "chatrooms")
MAX_RULES = 100
MAX_CHATROOMS = 100
"""Chatrooms of one rule."""

NO_ACTING_CHATROOM = "a trigger has no acting chatroom and so cannot meet the channel floor"
ACTIONS_ACT_FOR_NOBODY = "an action has no acting chatroom and so cannot meet the channel floor"

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpRule:
    """These chatrooms may do these operations."""

    operations: tuple[Operation, ...]
    chatrooms: tuple[UUID, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the form in which a rule is written."""
        return {
            "operations": list(self.operations),
            "chatrooms": [str(chatroom) for chatroom in self.chatrooms],
        }


def allows(rules: Iterable[ScpRule], operation: Operation, chatroom_id: UUID) -> bool:
    """Tell whether a chatroom may do it: some rule says so, or there is none at all."""
    rules = list(rules)
    return not rules or any(
        operation in rule.operations and chatroom_id in rule.chatrooms for rule in rules
    )


def read_rules(raw: object) -> list[ScpRule]:
    """Return the rules that an author wrote. Raises InvalidInput with every fault."""
    if not isinstance(raw, list) or len(raw) > MAX_RULES:
        message = f"rules must be a list of at most {MAX_RULES} rules"
        raise InvalidInput.of([_fault("/rules", message)])
    faults: list[Fault] = []
    for index, rule in enumerate(raw):
        faults += _rule_faults(rule, child("/rules", index))
        if len(faults) >= MAX_TOLD:
            break
    if faults:
        raise InvalidInput.of(faults)
    return [
        ScpRule(operations=tuple(rule["operations"]), chatrooms=tuple(map(UUID, rule["chatrooms"])))
        for rule in raw
    ]


def _rule_faults(rule: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(rule, dict):
        yield _fault(pointer, "a rule must be an object")
        return
    for key in unknown_keys(rule, _KEYS):
        yield _fault(child(pointer, key), unknown_key(key, "a rule", _KEYS))
    operations = _distinct_texts(rule.get("operations"))
    if not operations or not set(operations) <= set(OPERATIONS):
        message = f"operations must be a list of some of: {', '.join(OPERATIONS)}, each once"
        yield _fault(child(pointer, "operations"), message)
    chatrooms = _distinct_texts(rule.get("chatrooms"))
    if not 1 <= len(chatrooms) <= MAX_CHATROOMS or not all(map(_UUID.fullmatch, chatrooms)):
        message = f"chatrooms must be a list of 1 to {MAX_CHATROOMS} UUIDs, each once"
        yield _fault(child(pointer, "chatrooms"), message)


def _distinct_texts(value: object) -> list[str]:
    """Return a list of texts of which none stands twice, in whatever case; [] for all else."""
    texts = value if isinstance(value, list) else []
    if not all(isinstance(text, str) for text in texts):
        return []
    return texts if len({text.lower() for text in texts}) == len(texts) else []


def refuse_triggers(table: CustomTable, triggers: list[Json]) -> None:
    """Raise InvalidInput ``triggers_beside_scp_rules`` for triggers of a table with rules.

    The table is to be locked: rules may be on their way.
    """
    if table.scp_ruled and triggers:
        message = f"a table with channel SCP rules takes no triggers: {NO_ACTING_CHATROOM}"
        raise _refusal("triggers_beside_scp_rules", "/triggers", message)


def refuse_rules(table: CustomTable, rules: list[ScpRule]) -> None:
    """Raise InvalidInput for rules of a locked table that has triggers, or no channel."""
    if not rules:
        return
    if table.triggers not in (None, []):
        message = f"a table with triggers takes no channel SCP rules: {NO_ACTING_CHATROOM}"
        raise _refusal("scp_rules_beside_triggers", "/rules", message)
    if table.channel_id is None:
        message = "a table without a channel takes no channel SCP rules: nobody would meet them"
        raise _refusal("scp_rules_without_channel", "/rules", message)


def refuse_actions(table: CustomTable) -> None:
    """Raise Conflict ``table_scp_ruled`` when an action is about to touch a table with rules."""
    if table.scp_ruled:
        message = f"table '{cut(table.name)}' has channel SCP rules: {ACTIONS_ACT_FOR_NOBODY}"
        raise Conflict(message, code="table_scp_ruled")


def _refusal(code: str, pointer: str, message: str) -> InvalidInput:
    return InvalidInput.of([Fault(code=code, pointer=pointer, message=message)])


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="scp_rules_invalid", pointer=pointer, message=message)
