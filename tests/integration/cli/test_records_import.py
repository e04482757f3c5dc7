"""Records from files, through the API."""

import gzip
import json

import pytest

from tests.builders_db import insert_table

_ROWS = "SELECT data FROM record WHERE table_id = %s ORDER BY id"


@pytest.fixture
def table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="orders")


@pytest.fixture
def stored(conn, table):
    return lambda: [data for (data,) in conn.execute(_ROWS, [table.id])]


def test_csv_becomes_records(on_api, stored, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text('title,amount\nlamp,3\n"two\nlines",\n"a ""quote""",1.5\n')

    told = on_api.told("records", "import", "orders", file, "--chunk", 2)

    assert told == {"created": 3, "refused": 0, "refused_lines": []}
    assert stored() == [
        {"c1": "lamp", "c3": 3},
        {"c1": "two\nlines"},
        {"c1": 'a "quote"', "c3": 1.5},
    ]


def test_json_lines_become_records_compressed_too(on_api, stored, tmp_path):
    file = tmp_path / "orders.jsonl.gz"
    rows = [{"title": "燈", "amount": 3}, {"title": "lamp"}]
    with gzip.open(file, "wt") as target:
        target.writelines(f"{json.dumps(row)}\n" for row in rows)

    told = on_api.told("records", "import", "orders", file)

    assert told["created"] == 2
    assert stored() == [{"c1": "燈", "c3": 3}, {"c1": "lamp"}]


def test_lines_that_are_refused_are_told_by_their_place_in_the_file(on_api, stored, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("title,amount\nlamp,3\nlamp,many\nlamp,4\nlamp,few\n")

    done = on_api.run("records", "import", "orders", file, "--chunk", 2)

    assert done.exit_code == 1
    assert done.stdout == "2 records created, 2 refused\n"
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == ["line 3", "line 5"]
    assert len(stored()) == 2


def test_a_text_can_stand_for_an_empty_field(on_api, stored, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text('title,amount\nlamp,NA\n"NA, or not",3\n')

    on_api.told("records", "import", "orders", file, "--null", "NA")

    assert stored() == [{"c1": "lamp"}, {"c1": "NA, or not", "c3": 3}]


def test_the_same_records_at_different_places_are_all_stored(on_api, stored, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("title\n" + "lamp\n" * 6)

    for _ in range(2):
        on_api.told("records", "import", "orders", file, "--chunk", 2)
    assert len(stored()) == 6

    on_api.told("records", "import", "orders", file, "--chunk", 2, "--again")
    assert len(stored()) == 12


def test_a_file_that_grew_brings_only_what_is_new(on_api, stored, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("title\n" + "lamp\n" * 4)
    on_api.told("records", "import", "orders", file, "--chunk", 2)

    file.write_text("title\n" + "lamp\n" * 4 + "new\n")
    on_api.told("records", "import", "orders", file, "--chunk", 2)

    assert [row["c1"] for row in stored()] == ["lamp"] * 4 + ["new"]


def test_a_file_of_an_unknown_kind_or_a_wrong_header_is_refused(on_api, stored, tmp_path):
    unknown = tmp_path / "orders.xls"
    unknown.write_text("title\nlamp\n")
    wrong = tmp_path / "orders.csv"
    wrong.write_text("titel\nlamp\n")

    assert "--format" in on_api.run("records", "import", "orders", unknown).stderr
    assert on_api.told("records", "import", "orders", unknown, "--format", "csv")["created"] == 1
    done = on_api.run("records", "import", "orders", wrong)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "titel" in done.stderr
    assert len(stored()) == 1


@pytest.mark.usefixtures("table")
def test_a_file_that_is_no_gzip_or_is_cut_off_is_refused_in_one_line(on_api, tmp_path):
    plain = tmp_path / "plain.csv.gz"
    plain.write_text("title\nlamp\n")
    cut_off = tmp_path / "cut.csv.gz"
    cut_off.write_bytes(gzip.compress(b"title\nlamp\n")[:-4])

    for file in (plain, cut_off):
        done = on_api.run("records", "import", "orders", file)

        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: {file.name} is not a whole gzip file: ")
        assert done.stderr.count("\n") == 1
