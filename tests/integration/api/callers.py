"""Callers of the API, what they send, and how their answers are read."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

ADMIN_TOKEN = "the admin token of the tests"
CHANNEL = UUID("c0000000-0000-4000-8000-000000000001")
PUBLIC_URL = "https://go.example.com"
MAX_BODY_BYTES = 1024 * 1024
MAX_BULK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody with credentials, who speaks to one scope's table routes by default."""

    client: Any
    headers: dict[str, str]
    tables: str

    def request(self, method, path, *, headers=None, **options):
        headers = {**self.headers, **(headers or {})}
        return self.client.open(path, method=method, headers=headers, **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def put(self, path, **options):
        return self.request("PUT", path, **options)

    def patch(self, path, **options):
        return self.request("PATCH", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)


def problem(response):
    """Return (status, code, detail) of a problem document."""
    assert response.content_type == "application/problem+json", response.get_data(as_text=True)
    document = json.loads(response.data)
    assert document["status"] == response.status_code
    assert document["title"]
    prefix, _, code = document["type"].rpartition(":")
    assert prefix == "urn:duebook:problem"
    return response.status_code, code, document["detail"]


def faults(response):
    """Return [(pointer, code)] of a problem document."""
    return [(error["pointer"], error["code"]) for error in json.loads(response.data)["errors"]]


def send_stream(who, path, stream, *, media, length=None, headers=None):
    """POST what a stream yields, whatever Content-Length it is said to have."""
    said = {} if length is None else {"CONTENT_LENGTH": str(length)}
    return who.post(
        path,
        content_type=media,
        headers=headers,
        environ_overrides={"wsgi.input": stream, **said},
    )


class Unreadable:
    """A body of which nothing may be read."""

    def read(self, size=-1):
        raise AssertionError("read")


COLUMNS = [
    {"name": "案件名稱", "type": "text"},
    {"name": "到期時間", "type": "datetime"},
    {"name": "amount", "type": "number"},
    {"name": "done", "type": "checkbox"},
    {"name": "state", "type": "select", "options": ["open", "closed"]},
    {"name": "day", "type": "date"},
    {"name": "more", "type": "json"},
]


def new_table(who, *, tenant=None, **parts):
    """Create a table in the scope of a caller and return its path and its document."""
    query = f"?tenant={tenant.id}" if who.tables.startswith("/root") else ""
    body = {"name": "cases", "columns": COLUMNS, **parts}
    answer = who.post(who.tables + query, json=body)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    return f"{who.tables}/{answer.json['id']}", answer.json
