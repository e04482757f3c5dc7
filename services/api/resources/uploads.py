"""Bulk create: records from JSON Lines or CSV, stored in batches while they arrive.

A batch is stored whole or not at all. Under an Idempotency-Key each batch notes, in its own
transaction, how far the upload has come: sent again after a fault, it goes on from there.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

from services.api import fields, idempotency
from services.api.auth import RECORD_WRITERS
from services.api.bulk_lines import CSV, JSON_LINES, Line, read_csv, read_json_lines
from services.api.fields import StrictSchema
from services.api.resources.access import reachable_table
from services.api.routes import Answer, Route, Upload
from shared.db.clock import server_now
from shared.db.tenant_session import TenantSession
from shared.domain.records import CustomTable
from shared.effects.record_writes import create_records
from shared.errors import Conflict
from shared.queries.idempotency import keep_answer, lock_key, take_key

BATCH_LINES = 1000
_MAX_REFUSED = 1000


class RefusedLineSchema(StrictSchema):
    """A line that is no record of the table."""

    line = fields.Integer(min=1, required=True)
    code = fields.Text(max=100, required=True)
    pointer = fields.Text(max=1000, required=True)
    detail = fields.Text(max=2000, required=True)


class UploadSchema(StrictSchema):
    """What became of the lines; the first 1,000 refused ones are told, all are counted."""

    created = fields.Integer(required=True)
    refused = fields.Integer(required=True)
    refused_lines = fields.Items(fields.Nested(RefusedLineSchema), required=True)


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far an upload has come: ``line`` is the last line of the last batch stored."""

    line: int = 0
    created: int = 0
    refused: int = 0
    refused_lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, batch: list[Line]) -> None:
        """Count a batch that is being stored."""
        for line in batch:
            if line.fault is None:
                self.created += 1
                continue
            self.refused += 1
            if len(self.refused_lines) < _MAX_REFUSED:
                self.refused_lines.append(_refused(line))
        self.line = batch[-1].number


def _refused(line: Line) -> dict[str, Any]:
    assert line.fault is not None
    return {
        "line": line.number,
        "code": line.fault.code,
        "pointer": line.fault.pointer[:1000],
        "detail": line.fault.message[:2000],
    }


def _upload(upload: Upload) -> Answer:
    with upload.sessions() as conn:
        table = _table(conn, upload)
    read = read_csv if upload.media == CSV else read_json_lines
    lines = read(upload.pieces, table.columns)
    store = _store_all if upload.key is None else _store_once
    return Answer(body=store(upload, lines))


def _table(conn: TenantSession, upload: Upload) -> CustomTable:
    return reachable_table(conn, upload.caller, upload.ids["table_id"], acts=upload.acts)


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(lines, BATCH_LINES)):
        yield batch


def _store(conn: TenantSession, upload: Upload, batch: list[Line]) -> None:
    rows = [line.cells for line in batch if line.cells is not None]
    if rows:
        create_records(conn, _table(conn, upload), rows, now=server_now(conn))


def _store_all(upload: Upload, lines: Iterator[Line]) -> _Progress:
    progress = _Progress()
    for batch in _batches(lines):
        with upload.sessions() as conn, conn.transaction():
            _store(conn, upload, batch)
        progress.add(batch)
    return progress


def _store_once(upload: Upload, lines: Iterator[Line]) -> _Progress:
    key = _Key(upload)
    progress = key.begin()
    key.skip(lines, to=progress.line)
    if key.is_done:
        if next(lines, None) is not None:
            raise idempotency.reused()
        return progress
    for batch in _batches(lines):
        with upload.sessions() as conn, conn.transaction():
            key.take(conn)
            _store(conn, upload, batch)
            progress.add(batch)
            key.note(conn, batch, progress)
    with upload.sessions() as conn, conn.transaction():
        key.take(conn)
        key.finish(conn, progress)
    return progress


class _Key:
    """The Idempotency-Key of an upload: the hash and the counts of the lines stored under it."""

    def __init__(self, upload: Upload) -> None:
        assert upload.key is not None
        self._sessions = upload.sessions
        self._tenant_id = upload.caller.tenant_id
        self._key = upload.key
        self._hash = sha256(json.dumps([str(upload.ids["table_id"]), upload.media]).encode())
        self._known = self._hash.digest()
        self.is_done = False

    def begin(self) -> _Progress:
        """Return how far an upload under the key has come before."""
        with self._sessions() as conn, conn.transaction():
            known = lock_key(conn, tenant_id=self._tenant_id, key=self._key)
        if known is None:
            return _Progress()
        self._known = known.request_hash
        self.is_done = known.status is not None
        try:
            return _Progress(**json.loads(known.body or "{}"))
        except TypeError:  # the answer of another kind of request
            raise idempotency.reused() from None

    def skip(self, lines: Iterator[Line], *, to: int) -> None:
        """Pass by the lines that are stored; raises Conflict unless they are the same."""
        number = 0
        while number < to:
            line = next(lines, None)
            if line is None:
                raise idempotency.reused()
            number = line.number
            self._hash.update(line.raw)
        if self._hash.digest() != self._known:
            raise idempotency.reused()

    def take(self, conn: TenantSession) -> None:
        """Take the key, or lock it; raises Conflict when another upload under it is at work."""
        digest, now = self._hash.digest(), server_now(conn)
        take_key(conn, tenant_id=self._tenant_id, key=self._key, request_hash=digest, now=now)
        known = lock_key(conn, tenant_id=self._tenant_id, key=self._key)
        if known is None or known.request_hash != digest:
            raise Conflict(
                "another upload with this Idempotency-Key is at work", code="upload_in_progress"
            )

    def note(self, conn: TenantSession, batch: list[Line], progress: _Progress) -> None:
        """Note, with the batch, that its lines are stored."""
        for line in batch:
            self._hash.update(line.raw)
        self._keep(conn, progress, status=None)

    def finish(self, conn: TenantSession, progress: _Progress) -> None:
        """Note that the upload came to its end."""
        self._keep(conn, progress, status=200)

    def _keep(self, conn: TenantSession, progress: _Progress, *, status: int | None) -> None:
        # An admin's key is of no tenant, whatever tenant the batch was stored in.
        conn.bind(self._tenant_id)
        keep_answer(
            conn,
            tenant_id=self._tenant_id,
            key=self._key,
            request_hash=self._hash.digest(),
            status=status,
            headers={},
            body=json.dumps(asdict(progress)),
        )


BULK_CREATE = Route(
    method="POST",
    path="/tables/<uuid:table_id>/records/bulk",
    operation_id="records.bulkCreate",
    summary="Create records from JSON Lines (cells by column name) or CSV (a header of names)",
    acts="create",
    roles=RECORD_WRITERS,
    answers={200: UploadSchema},
    upload=_upload,
    media=(JSON_LINES, CSV),
    creates=True,
    conflicts=True,
)
