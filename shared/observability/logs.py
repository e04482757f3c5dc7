"""Logging, set up once: one event per line, JSON in production, colours on a terminal.

Events are snake_case in the past tense; ids are bound as context, payloads are never logged.
"""

import logging
import sys
from typing import Literal

import structlog
from structlog.types import EventDict, Processor

from shared.observability import tracing

# They tell every lost connection several times, with traces; our adapters tell it in one line.
_SILENCED = ("opentelemetry", "pika")


def _add_trace(_logger: object, _method: str, event: EventDict) -> EventDict:
    event.update(tracing.current_ids())
    return event


_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    _add_trace,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(
    *, service: str, log_format: Literal["json", "console"], level: str = "INFO"
) -> None:
    """Send our events and those of every library to stderr in one form, ``service`` on each."""
    renderers = _renderers(log_format)
    structlog.configure(
        processors=[*_SHARED, _add_service(service), *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, _add_service(service), _add_logger],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, "INFO", key=_number), force=True)
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level]


def _renderers(log_format: str) -> list[Processor]:
    # Traces as plain text: the richer forms print local variables, secrets among them.
    if log_format == "console":
        return [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _add_service(service: str) -> Processor:
    def add(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    return add


def _add_logger(_logger: object, _method: str, event: EventDict) -> EventDict:
    event["logger"] = event["_record"].name
    return event
