"""The channel SCP rules of a table: read, set as a whole."""

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from shared.domain.records import CustomTable
from shared.domain.scp_rules import MAX_CHATROOMS, MAX_RULES, OPERATIONS
from shared.queries.scp_rules import list_rules
from shared.usecases.set_scp_rules import set_scp_rules

_RULES = "/tables/<uuid:table_id>/scp-rules"

# The bounds of rules are the domain's: here they are only written down.
_LIST = {
    "type": "array",
    "maxItems": MAX_RULES,
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["operations", "chatrooms"],
        "properties": {
            "operations": {
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
                "items": {"type": "string", "enum": list(OPERATIONS)},
            },
            "chatrooms": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CHATROOMS,
                "uniqueItems": True,
                "items": {"type": "string", "format": "uuid"},
            },
        },
    },
}


class ScpRulesSchema(StrictSchema):
    """The rules of a table; an empty list is none."""

    table_id = fields.Uuid(required=True)
    rules = fields.Json(required=True, metadata=_LIST)
    revision = fields.Integer(required=True)


class NewScpRulesSchema(StrictSchema):
    """The whole list: what is not in it is dropped."""

    rules = fields.Json(required=True, metadata=_LIST)


def _get(call: Call) -> Answer:
    return _answer(call, table_of(call))


def _set(call: Call) -> Answer:
    table = set_scp_rules(
        call.conn,
        table_of(call).id,
        call.body["rules"],
        now=call.now,
        expected_revision=call.revision,
    )
    return _answer(call, table)


def _answer(call: Call, table: CustomTable) -> Answer:
    body = {
        "table_id": table.id,
        "rules": [rule.to_json() for rule in list_rules(call.conn, table)],
        "revision": table.revision,
    }
    return Answer(body=body, revision=table.revision)


SCP_RULE_ROUTES = (
    Route(
        method="GET",
        path=_RULES,
        operation_id="scpRules.get",
        summary="Read which chatrooms of the channel may do what with the table's records",
        roles=MODERATOR,
        answers={200: ScpRulesSchema},
        handler=_get,
    ),
    Route(
        method="PUT",
        path=_RULES,
        operation_id="scpRules.set",
        summary="Replace the rules for chatrooms as a whole; a table with triggers takes none",
        roles=MODERATOR,
        body=NewScpRulesSchema,
        answers={200: ScpRulesSchema},
        handler=_set,
        versioned=True,
    ),
)
