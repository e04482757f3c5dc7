"""Schemas that several resources share: pages, the tenant a root call names, problem documents."""

from services.api import fields
from services.api.fields import StrictSchema

MAX_PAGE = 1000
_DEFAULT_PAGE = 100

TRACE_ID = {
    "description": "where traces are kept, the one that tells of it; a step's is its execution's"
}


class PageQuery(StrictSchema):
    """Where a page of a list begins, and how long it is at most."""

    cursor = fields.Text(max=600, metadata={"description": "next_cursor of the page before"})
    limit = fields.QueryInteger(min=1, max=MAX_PAGE, load_default=_DEFAULT_PAGE)


class TenantQuery(StrictSchema):
    """The tenant that the admin acts in; API tokens have theirs."""

    tenant = fields.Uuid(metadata={"description": "the tenant, with X-ADMIN-TOKEN alone"})


class TenantPageQuery(PageQuery, TenantQuery):
    """A page of a list of a tenant."""


class CancelCountsSchema(StrictSchema):
    """What a bulk cancel did: one call cancels up to 10,000; call again while more match."""

    matched = fields.Integer(required=True)
    cancelled = fields.Integer(required=True)


class ProblemErrorSchema(StrictSchema):
    """One fault: where in the body (or the query, read as an object), and what is wrong."""

    pointer = fields.Text(max=1000, required=True)
    code = fields.Text(max=100, required=True)
    detail = fields.Text(max=2000, required=True)


class ProblemSchema(StrictSchema):
    """A problem document (RFC 9457); ``detail`` is the first fault in document order."""

    type = fields.Text(max=200, required=True)
    title = fields.Text(max=100, required=True)
    status = fields.Integer(min=400, max=599, required=True)
    detail = fields.Text(max=2000, required=True)
    errors = fields.Items(fields.Nested(ProblemErrorSchema))
