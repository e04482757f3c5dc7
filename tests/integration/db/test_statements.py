import importlib
import pkgutil
import re

import psycopg
import pytest

import shared.queries

_MODULES = [found.name for found in pkgutil.iter_modules(shared.queries.__path__)]
_NAMED = re.compile(r"%\((\w+)\)[sb]")
_STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s")


def _texts(module):
    constants = vars(importlib.import_module(f"shared.queries.{module}")).items()
    return {
        name: text
        for constant, value in constants
        if constant.isupper()
        for name, text in _named_texts(constant, value)
        if _STATEMENT.match(text) and "{table}" not in text  # nobody sends a template itself
    }


def _named_texts(constant, value):
    if isinstance(value, str):
        return [(constant, value)]
    if isinstance(value, dict):
        texts = ((f"{constant}[{key}]", text) for key, text in value.items())
        return [(name, text) for name, text in texts if isinstance(text, str)]
    return []


# A text that is part of a longer one is not sent by itself.
_LONGER = "\0".join(sorted({text for module in _MODULES for text in _texts(module).values()}))


def _numbered(statement):
    """Name the parameters as the server does: $1, $2, …"""
    names = list(dict.fromkeys(_NAMED.findall(statement)))
    numbered = _NAMED.sub(lambda match: f"${names.index(match[1]) + 1}", statement)
    return numbered.replace("%%", "%")


def _fault(conn, statement):
    try:
        conn.execute(f"PREPARE checked AS {_numbered(statement)}")
    except psycopg.Error as error:
        return str(error)
    conn.execute("DEALLOCATE checked")
    return None


@pytest.mark.parametrize("module", _MODULES)
def test_the_statements_of_a_module_fit_the_schema(conn, module):
    whole = {name: text for name, text in _texts(module).items() if _LONGER.count(text) == 1}

    faults = {name: fault for name, text in whole.items() if (fault := _fault(conn, text))}

    assert faults == {}


def test_a_statement_that_is_made_for_both_tables_is_held_against_both():
    assert {"_RENEW[trigger_run]", "_RENEW[scheduled_action]"} <= _texts("work").keys()


def test_a_statement_that_does_not_fit_is_found(conn):
    assert "no_such_column" in _fault(conn, "SELECT no_such_column FROM record WHERE id = %(id)s")
