"""A lookup that knows what the case file of actions has."""

import json
from pathlib import Path

from shared.domain.columns import column_from_json
from shared.domain.commands import Command
from shared.domain.workflows import Workflow
from tests.builders import LONG_AGO, TENANT_ID, a_table

CASES = json.loads((Path(__file__).parents[2] / "cases" / "actions.json").read_text("utf-8"))


class Known:
    """The tables, commands and workflows of the case file; ``workflows`` are nodes by name."""

    def __init__(self, **workflows):
        self.workflows = CASES["workflows"] | workflows

    def find_table(self, table_id):
        columns = CASES["tables"].get(str(table_id))
        if columns is None:
            return None
        return a_table(id=table_id, columns=tuple(column_from_json(column) for column in columns))

    def find_command(self, name):
        schema = CASES["commands"].get(name)
        if schema is None:
            return None
        return Command(
            id=1,
            tenant_id=TENANT_ID,
            name=name,
            url="https://commands.example/",
            input_schema=schema,
            revision=1,
            created_at=LONG_AGO,
            updated_at=LONG_AGO,
        )

    def has_secret(self, name):
        return name in CASES["secrets"]

    def find_workflow(self, name):
        if name not in self.workflows:
            return None
        return Workflow(
            id=1,
            tenant_id=TENANT_ID,
            name=name,
            version=1,
            nodes=self.workflows[name],
            created_at=LONG_AGO,
            updated_at=LONG_AGO,
        )
