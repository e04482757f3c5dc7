"""Rules on events: make, list, look at, replace, delete."""

from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_id, page
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.action_lists import MAX_ACTIONS
from shared.domain.conditions import MAX_PREDICATES
from shared.domain.event_rules import MAX_EVENT_NAME, MAX_RULE_NAME, TriggerRule
from shared.queries.trigger_rules import delete_rule, get_rule, list_rules
from shared.usecases.manage_rules import RuleDraft, make_rule, replace_rule

_RULE = "/trigger-rules/<id:rule_id>"
_EVENT = {"description": "the name of the events, exactly", "examples": ["order.paid"]}
_CONDITIONS = {
    "type": "array",
    "maxItems": MAX_PREDICATES,
    "items": {"$ref": "#/components/schemas/Predicate"},
    "description": "on event.<key> and line_user.<attribute>; all must hold",
    "examples": [
        [
            {"column": "event.sum", "op": "gte", "value": 1000},
            {"column": "line_user.plan", "op": "neq", "value": "free"},
        ]
    ],
}
_ACTIONS = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_ACTIONS,
    "items": {"$ref": "#/components/schemas/Action"},
    "description": "each on its own, in no order; a workflow is for what needs one",
    "examples": [
        [
            {
                "type": "notify",
                "chatroom_id": "11111111-1111-4111-8111-111111111111",
                "message": "Thank you, $line_user.display_name, for order $event.order!",
                "delay": {"seconds": 259_200, "reEvaluateConditions": True},
            }
        ]
    ],
}


class RuleSchema(StrictSchema):
    """A rule."""

    id = fields.Integer(required=True)
    name = fields.Text(min=1, max=MAX_RULE_NAME, required=True)
    event = fields.Text(min=1, max=MAX_EVENT_NAME, required=True, metadata=_EVENT)
    conditions = fields.Json(required=True, metadata=_CONDITIONS)
    actions = fields.Json(required=True, metadata=_ACTIONS)
    enabled = fields.Boolean(required=True)
    revision = fields.Integer(required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)


class RulePageSchema(StrictSchema):
    """A page of rules, the oldest first."""

    items = fields.Items(fields.Nested(RuleSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewRuleSchema(StrictSchema):
    """A rule as a whole: when an event of the name holds the conditions, the actions follow."""

    name = fields.Text(min=1, max=MAX_RULE_NAME, required=True)
    event = fields.Text(min=1, max=MAX_EVENT_NAME, required=True, metadata=_EVENT)
    conditions = fields.Json(load_default=list, metadata=_CONDITIONS)
    actions = fields.Json(required=True, metadata=_ACTIONS)
    enabled = fields.Boolean(load_default=True)


def _make(call: Call) -> Answer:
    rule = make_rule(call.conn, tenant_id=call.tenant_id, draft=_draft(call), now=call.now)
    return _answer(rule, status=201)


def _list(call: Call) -> Answer:
    limit = call.query["limit"]
    found = list_rules(call.conn, call.tenant_id, after=after_id(call), limit=limit)
    return page(
        call,
        found.items,
        more=found.more,
        position=lambda rule: (rule.id,),
        document=_document,
    )


def _get(call: Call) -> Answer:
    return _answer(get_rule(call.conn, call.tenant_id, call.ids["rule_id"]))


def _replace(call: Call) -> Answer:
    rule = replace_rule(
        call.conn,
        tenant_id=call.tenant_id,
        rule_id=call.ids["rule_id"],
        draft=_draft(call),
        now=call.now,
        expected_revision=call.revision,
    )
    return _answer(rule)


def _delete(call: Call) -> Answer:
    delete_rule(call.conn, call.tenant_id, call.ids["rule_id"])
    return Answer(status=204)


def _draft(call: Call) -> RuleDraft:
    return RuleDraft(**call.body)


def _answer(rule: TriggerRule, *, status: int = 200) -> Answer:
    return Answer(body=_document(rule), status=status, revision=rule.revision)


def _document(rule: TriggerRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.name,
        "event": rule.event,
        "conditions": rule.conditions,
        "actions": rule.actions,
        "enabled": rule.enabled,
        "revision": rule.revision,
        "created_at": rule.created_at,
        "updated_at": rule.updated_at,
    }


TRIGGER_RULE_ROUTES = (
    Route(
        method="POST",
        path="/trigger-rules",
        operation_id="triggerRules.make",
        summary="Make a rule: what events of a name lead to, and when",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewRuleSchema,
        answers={201: RuleSchema},
        handler=_make,
        creates=True,
    ),
    Route(
        method="GET",
        path="/trigger-rules",
        operation_id="triggerRules.list",
        summary="List rules, the oldest first",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: RulePageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=_RULE,
        operation_id="triggerRules.get",
        summary="Look at a rule",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: RuleSchema},
        handler=_get,
    ),
    Route(
        method="PUT",
        path=_RULE,
        operation_id="triggerRules.replace",
        summary="Replace a rule as a whole; what it has scheduled stays as it is",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewRuleSchema,
        answers={200: RuleSchema},
        handler=_replace,
        versioned=True,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=_RULE,
        operation_id="triggerRules.delete",
        summary="Delete a rule; what it has scheduled stays as it is",
        roles=MODERATOR,
        query=TenantQuery,
        answers={204: None},
        handler=_delete,
    ),
)
