"""An action of a run that carries a ``delay``: it is recorded now, and executed when it is due."""

from dataclasses import dataclass

from shared.actions.action import ActionContext, Config, Effect, Services
from shared.actions.failures import ActionFailed
from shared.domain.delays import Delay, delay_of, without_delay
from shared.domain.instants import instant_text
from shared.domain.runs import ClaimedRun
from shared.domain.scheduled_actions import NewAction
from shared.domain.strict_json import Json
from shared.domain.templates import text_of
from shared.effects.delays import schedule
from shared.errors import AppError


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """What stands in a run for an action with a delay; ``when`` is the trigger's, as frozen."""

    run: ClaimedRun
    when: Json

    @property
    def type(self) -> str:
        """Return what it counts as: it is none of the action itself."""
        return "delay"

    def effect(self, services: Services) -> Effect:
        """Return internal, whatever the action's own effect will be."""
        return "internal"

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Record the action, once; the run does not wait for it."""
        delay = delay_of(config)
        assert delay is not None
        with context.connect() as conn:
            try:
                recorded = schedule(
                    conn,
                    self._request(config, context),
                    delay=delay,
                    link_token=_link_token(delay, context),
                    clicks=context.services.clicks,
                    now=context.now,
                )
            except AppError as error:
                raise ActionFailed(error.message) from error
        context.look_again(recorded.link_id)
        return {"scheduled_action_id": recorded.action_id}

    def _request(self, config: Config, context: ActionContext) -> NewAction:
        run = self.run
        about_run = {"id": run.id, "scheduled_for": instant_text(run.scheduled_for)}
        return NewAction(
            tenant_id=run.tenant_id,
            origin_key=context.idempotency_key,
            execute_at=context.now,
            action_type=config["type"],
            action_config=without_delay(config),
            source_config={"when": self.when},
            context={"run": about_run},
            definition_hash=run.definition_hash,
            table_id=run.table_id,
            record_id=run.record_id,
            run_id=run.id,
            depth=run.depth,
        )


def _link_token(delay: Delay, context: ActionContext) -> str | None:
    """Return the token of the link that a wait watches, None for what waits for its time alone."""
    if delay.tracking_link is None:
        return None
    return text_of(context.render(delay.tracking_link))
