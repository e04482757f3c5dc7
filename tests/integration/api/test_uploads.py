import io
import json

import pytest

from services.api.resources.uploads import BATCH_LINES
from tests.integration.api.callers import (
    MAX_BULK_BYTES,
    Unreadable,
    new_table,
    problem,
    send_stream,
)

LINES = "application/x-ndjson"
CSV = "text/csv"


def lines(*cells):
    return "".join(f"{json.dumps(line)}\n" for line in cells).encode()


def amounts(count):
    return lines(*({"amount": number} for number in range(count)))


def upload(who, table, data, *, media=LINES, **options):
    return who.post(f"{table}/records/bulk", data=data, content_type=media, **options)


def stored(conn):
    return conn.execute("SELECT count(*) FROM record").fetchone()[0]


def test_json_lines_become_records_in_their_order(author, authored):
    body = lines({"案件名稱": "a"}, {"amount": 2, "done": True}, {})

    answer = upload(author, authored, body)

    assert answer.status_code == 200
    assert answer.json == {"created": 3, "refused": 0, "refused_lines": []}
    found = [item["data"] for item in author.get(f"{authored}/records").json["items"]]
    assert [(cells["案件名稱"], cells["amount"], cells["done"]) for cells in found] == [
        ("a", None, None),
        (None, 2, True),
        (None, None, None),
    ]


def test_csv_becomes_records_by_its_header(author, authored):
    body = "amount,案件名稱,done\n1,a,true\n,b,\n".encode()

    answer = upload(author, authored, body, media=f"{CSV}; charset=utf-8")

    assert answer.json["created"] == 2
    found = [item["data"] for item in author.get(f"{authored}/records").json["items"]]
    assert [(cells["案件名稱"], cells["amount"], cells["done"]) for cells in found] == [
        ("a", 1, True),
        ("b", None, None),
    ]


def test_lines_that_are_no_records_are_counted_and_told(moderator, table, conn):
    body = lines({"amount": 1}, {"amount": "x"}, {"nope": 1}) + b"{\n" + lines({"amount": 2})

    answer = upload(moderator, table, body)

    assert (answer.json["created"], answer.json["refused"]) == (2, 3)
    told = [(line["line"], line["code"]) for line in answer.json["refused_lines"]]
    assert told == [(2, "cell_invalid"), (3, "column_unknown"), (4, "json_malformed")]
    assert stored(conn) == 2


def test_more_lines_than_a_batch_are_all_stored(moderator, table, conn):
    answer = upload(moderator, table, amounts(2 * BATCH_LINES + 1))

    assert answer.json["created"] == stored(conn) == 2 * BATCH_LINES + 1


def test_of_many_refused_lines_all_are_counted(moderator, table):
    answer = upload(moderator, table, b"x\n" * 2500)

    assert answer.json["refused"] == 2500
    assert len(answer.json["refused_lines"]) == 1000


def test_event_triggers_fire_for_uploaded_records(moderator, table, conn):
    trigger = {
        "on": "record_created",
        "when": [{"column": "amount", "op": "gte", "value": 1}],
        "actions": [{"type": "webhook", "url": "https://example.com/hook"}],
    }
    moderator.put(f"{table}/triggers", json={"triggers": [trigger]})

    upload(moderator, table, amounts(3))

    assert conn.execute("SELECT count(*) FROM trigger_run").fetchone() == (2,)


def test_a_header_that_names_no_column_stores_nothing(moderator, table, conn):
    answer = upload(moderator, table, b"nope\n1\n", media=CSV)

    assert problem(answer)[:2] == (400, "column_unknown")
    assert stored(conn) == 0


def test_an_upload_sent_twice_under_one_key_is_stored_once(author, authored, conn):
    key = {"Idempotency-Key": "k1"}
    body = amounts(BATCH_LINES + 5) + b"x\n"

    first = upload(author, authored, body, headers=key)
    again = upload(author, authored, body, headers=key)

    assert first.json["created"] == stored(conn) == BATCH_LINES + 5
    assert again.json == first.json


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(amounts(4), id="shorter"),
        pytest.param(amounts(6), id="longer"),
        pytest.param(amounts(4) + lines({"amount": 99}), id="other cells"),
    ],
)
def test_a_key_with_other_lines_is_refused(other, moderator, table, conn):
    key = {"Idempotency-Key": "k1"}
    upload(moderator, table, amounts(5), headers=key)

    answer = upload(moderator, table, other, headers=key)

    assert problem(answer)[:2] == (409, "idempotency_key_reused")
    assert stored(conn) == 5


def test_a_key_of_another_kind_of_request_is_refused(moderator, table, conn):
    key = {"Idempotency-Key": "k1"}
    moderator.post(f"{table}/records", json={"data": {}}, headers=key)

    answer = upload(moderator, table, amounts(1), headers=key)

    assert problem(answer)[:2] == (409, "idempotency_key_reused")
    assert stored(conn) == 1


def test_a_refused_upload_does_not_use_its_key_up(moderator, table, conn):
    key = {"Idempotency-Key": "k1"}
    upload(moderator, table, b"nope\n1\n", media=CSV, headers=key)

    assert conn.execute("SELECT count(*) FROM idempotent_answer").fetchone() == (0,)
    assert upload(moderator, table, amounts(1), headers=key).json["created"] == 1


def test_an_upload_without_a_record_is_kept_under_its_key_too(moderator, table):
    key = {"Idempotency-Key": "k1"}
    first = upload(moderator, table, b"\n\n", headers=key)
    other = upload(moderator, table, amounts(1), headers=key)

    assert first.json == {"created": 0, "refused": 0, "refused_lines": []}
    assert problem(other)[:2] == (409, "idempotency_key_reused")


def test_a_key_is_not_good_for_another_table(moderator, table):
    key = {"Idempotency-Key": "k1"}
    other, _ = new_table(moderator)
    upload(moderator, table, amounts(1), headers=key)

    answer = upload(moderator, other, amounts(1), headers=key)

    assert problem(answer)[:2] == (409, "idempotency_key_reused")


def cut_off(who, table, body, *, at, headers=None):
    return send_stream(
        who,
        f"{table}/records/bulk",
        io.BytesIO(body[:at]),
        length=len(body),
        media=LINES,
        headers=headers,
    )


def test_an_upload_cut_off_in_its_first_batch_stores_nothing(moderator, table, conn):
    body = amounts(10)

    answer = cut_off(moderator, table, body, at=len(body) - 1)

    assert problem(answer)[:2] == (400, "body_truncated")
    assert stored(conn) == 0


def test_an_upload_cut_off_goes_on_where_it_stopped_under_its_key(moderator, table, conn):
    key = {"Idempotency-Key": "k1"}
    body = amounts(3 * BATCH_LINES)

    cut = cut_off(moderator, table, body, at=len(body) - 10, headers=key)
    kept = stored(conn)
    again = upload(moderator, table, body, headers=key)

    assert problem(cut)[:2] == (400, "body_truncated")
    assert kept == 2 * BATCH_LINES
    assert again.json["created"] == stored(conn) == 3 * BATCH_LINES


def test_two_uploads_under_one_key_do_not_store_a_batch_twice(moderator, table, conn):
    key = {"Idempotency-Key": "k1"}
    body = amounts(2 * BATCH_LINES)

    class Interrupted(io.BytesIO):
        """Lets the whole upload happen elsewhere before the rest of this one arrives."""

        asked = 0

        def read(self, size=-1):
            self.asked += 1
            if self.asked == 2:
                other = upload(moderator, table, body, headers=key)
                assert other.json["created"] == 2 * BATCH_LINES
            return super().read(min(size, 100))

    answer = send_stream(
        moderator,
        f"{table}/records/bulk",
        Interrupted(body),
        length=len(body),
        media=LINES,
        headers=key,
    )

    assert problem(answer)[:2] == (409, "upload_in_progress")
    assert stored(conn) == 2 * BATCH_LINES


def test_an_upload_over_the_limit_is_refused_before_it_is_read(moderator, table):
    answer = send_stream(
        moderator,
        f"{table}/records/bulk",
        Unreadable(),
        length=MAX_BULK_BYTES + 1,
        media=LINES,
    )

    assert problem(answer)[:2] == (413, "body_too_large")


@pytest.mark.parametrize("media", ["application/json", "text/plain", "multipart/form-data"])
def test_other_media_types_are_refused(media, moderator, table):
    assert problem(upload(moderator, table, b"{}\n", media=media))[:2] == (
        415,
        "media_type_unsupported",
    )


def test_an_empty_upload_is_refused(moderator, table):
    assert problem(upload(moderator, table, b""))[:2] == (400, "body_missing")
