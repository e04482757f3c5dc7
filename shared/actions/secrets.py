"""Secrets that headers name: are they there at the save, and what are they at the call."""

from collections.abc import Iterator, Mapping

from shared.actions.action import ActionContext, CheckContext, Config
from shared.actions.failures import ActionFailed
from shared.domain.faults import child, cut
from shared.domain.secrets import secrets_named
from shared.errors import Fault, Unavailable
from shared.queries.secrets import secret_values


def secret_faults(config: Config, context: CheckContext) -> Iterator[Fault]:
    """Give the faults of the headers of an action that name a secret which the tenant has not."""
    for header, name in secrets_named(config.get("headers", {})):
        if not context.lookup.has_secret(name):
            told = f"{config['type']} headers.{cut(header)} secret '{cut(name)}' does not exist"
            pointer = child("/headers", header) + "/secret"
            yield Fault(code="action_secret_unknown", pointer=pointer, message=told)


def read_secrets(named: Mapping[str, str], context: ActionContext) -> dict[str, str]:
    """Return the secrets that headers name, by their names, as they are now.

    Raises ActionFailed: for good where there is none of that name, for now where it is encrypted
    under a key that is not here.
    """
    with context.connect() as conn:
        stored = secret_values(conn, context.tenant_id, set(named.values()))
    values: dict[str, str] = {}
    for header, name in named.items():
        if name not in stored:
            raise ActionFailed(f"header '{header}' names the secret '{name}', which does not exist")
        try:
            values[name] = context.services.sealer.open(stored[name]).decode()
        except Unavailable as error:
            detail = f"the secret '{name}' cannot be read: {error.message}"
            raise ActionFailed(detail, transient=True) from error
    return values
