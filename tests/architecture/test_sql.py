import re

from tests.architecture.source import modules, strings

# Statements begin with a keyword in capitals, at the start of a string or of a line in it.
_STATEMENT = re.compile(
    r"^\s*(SELECT|INSERT INTO|UPDATE \w+|DELETE FROM|WITH \w+ AS|COPY \w+|LOCK TABLE"
    r"|(CREATE|ALTER|DROP) (TABLE|INDEX|ROLE|DATABASE|SCHEMA)|LISTEN|NOTIFY|SET LOCAL)\b[ \n]"
    r"|\bpg_(notify|try_advisory_lock|advisory_lock)\b",
    re.MULTILINE,
)
_ALLOWED = (("shared", "queries"), ("shared", "db"))


def _is_sql(text):
    return _STATEMENT.search(text) is not None


def test_sql_stands_only_where_tables_are_known():
    found = [
        f"{path}:{line}"
        for path in modules("services", "shared")
        if path.parts[:2] not in _ALLOWED
        for line, text in strings(path)
        if _is_sql(text)
    ]

    assert found == []


def test_a_statement_is_recognised():
    assert all(
        map(
            _is_sql,
            [
                "SELECT 1",
                "\n    UPDATE trigger_run\nSET a = 1",
                "LISTEN duebook_work",
                "WITH due AS MATERIALIZED (",
                "DELETE FROM record",
            ],
        )
    )
    assert not any(map(_is_sql, ["DELETE", "SELECTED a row", "Update it", "WITH"]))
