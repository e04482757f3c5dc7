"""Values that are none, or that contradict each other, are refused with a reason."""

import json
import re
from dataclasses import fields

import pytest
import yaml

from shared.messaging.topology import CONSUMED_QUEUES
from shared.settings import Settings
from tests.architecture.source import ROOT
from tests.chart.charts import (
    CHART,
    VALUES,
    by_component,
    container_of,
    environment_of,
    refusal,
    render,
)
from tests.servers.helm import RELEASES

_SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
_SECRETS = {
    *("DATABASE_URL", "AMQP_URL", "REDIS_URL", "ADMIN_TOKEN", "ENCRYPTION_KEYS"),
    "OTEL_EXPORTER_OTLP_HEADERS",
}
_WORKERS = ("trigger-worker", "action-worker")


def _worker(setting):
    return f"--set=profiles.action-worker.settings.{setting}"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--set=profiles.main.replicas=0", "replicas"),
        ("--set=profiles.main.replicas=two", "replicas"),
        ("--set=profiles.main.replica=2", "replica"),
        ("--set=profiles.mian.replicas=2", "mian"),
        ("--set=image.tag=latest", "tag"),
        ("--set=settings.DATABASE_URL=postgresql://x", "DATABASE_URL"),
        ("--set=settings.WORKER_THREAD=3", "WORKER_THREAD"),
        ("--set=settings.HEALTH_PORT=0", "HEALTH_PORT"),
        ("--set=settings.OTEL_EXPORTER_OTLP_HEADERS=k=v", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("--set=settings.OTEL_SDK_DISABLED=yes", "OTEL_SDK_DISABLED"),
        ("--set-json=settings.OTEL_TRACES_SAMPLER_ARG=0.1", "OTEL_TRACES_SAMPLER_ARG"),
        ("--set=podSecurityContext.runAsNonRoot=false", "runAsNonRoot"),
        ("--set=containerSecurityContext.readOnlyRootFilesystem=false", "readOnlyRootFilesystem"),
        ("--set-json=profiles.main.resources.limits.memory=null", "limits"),
        ("--set-json=profiles.main.secret.keys=[\"DATABASE_URL\"]", "keys"),
        ("--set=profiles.main.podDisruptionBudget.minAvailable=1", "podDisruptionBudget"),
        ("--set-json=profiles.trigger-worker.queueScaling.queues=[\"fire\"]", "queues"),
        ("--set=secretsAs=file", "secretsAs"),
        ("--set=certificateAuthorities.file=ca.crt", "certificateAuthorities"),
    ],
)  # fmt: skip
def test_the_schema_refuses(option, told, release):
    said = refusal(option, release=release)

    assert re.search(rf"\b{told}\b", said)
    assert "schema" in said


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([_worker("GRACE_SECONDS=60")], "gracePeriodSeconds must be more than GRACE_SECONDS (60)"),
        (["--set=profiles.main.preStopSeconds=15"], "GRACE_SECONDS (45) + preStopSeconds (15)"),
        ([_worker("ACTION_DEADLINE_SECONDS=31")], "at least ACTION_DEADLINE_SECONDS (31) + 15"),
        ([_worker("LEASE_SECONDS=25")], "LEASE_SECONDS (25) must be more than"),
        ([_worker("RENEW_SECONDS=101")], "at most a third of LEASE_SECONDS (300)"),
        (["--set=settings.HEALTH_HOST=127.0.0.1"], "HEALTH_HOST must not be of the pod alone"),
        (["--set=profiles.main.settings.API_HOST=localhost"], "API_HOST must not be of the pod"),
        (["--set=profiles.main.settings.API_PORT=8080"], "API_PORT and HEALTH_PORT must differ"),
        (["--set=profiles.action-worker.queueScaling.enabled=true"], "needs AMQP_URL among"),
        (["--set-json=profiles.cron-scheduler.secret.keys=[\"DATABASE_URL\",\"AMQP_URL\"]"],
         "AMQP_URL is needed by all or none: cron-scheduler have it"),
        (['--set-json=profiles.main.secret.keys=["DATABASE_URL","ADMIN_TOKEN","ENCRYPTION_KEYS"]'],
         "ENCRYPTION_KEYS is needed by all or none: main have it"),
        (["--values=examples/large.yaml", "--set=profiles.action-worker.autoscaling.enabled=true"],
         "autoscaling and queueScaling exclude each other"),
        (["--values=examples/large.yaml", "--set=profiles.main.autoscaling.maxReplicas=2"],
         "minReplicas must be at most maxReplicas"),
        (["--values=examples/large.yaml", "--set=settings.PUBLIC_URL="],
         "needs settings.PUBLIC_URL"),
        (["--set=certificateAuthorities.secret=a,certificateAuthorities.configMap=b"],
         "one of secret and configMap"),
        (["--values=examples/large.yaml", "--set=profiles.main.enabled=false"],
         "needs profiles.main"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(options, told):
    assert told in refusal(*options)


def test_the_schema_knows_every_setting_that_is_no_secret():
    profiles = _SCHEMA["properties"]["profiles"]["properties"]
    known = {
        *_SCHEMA["properties"]["settings"]["properties"],
        *profiles["main"]["properties"]["settings"]["properties"],
        *_SCHEMA["definitions"]["workerSettings"]["properties"],
    }

    assert known == {field.name.upper() for field in fields(Settings)} - _SECRETS
    assert set(_SCHEMA["definitions"]["keys"]["items"]["enum"]) == _SECRETS


def test_the_schema_is_closed():
    """A list of names, a map of labels and what Kubernetes itself checks may stay open."""
    open_ones = {
        path
        for path, node in _objects("", _SCHEMA)
        if node.get("additionalProperties") is not False
    }
    theirs = {"affinity", "tolerations", "peers", "texts", "requests", "limits", "global"}

    assert {path for path in open_ones if not theirs & set(path.split("/"))} == {
        f"/properties/{name}"
        for name in ("podSecurityContext", "containerSecurityContext",
                     "podSecurityContext/properties/seccompProfile",
                     "containerSecurityContext/properties/capabilities")
    }  # fmt: skip


def _objects(path, node):
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for key, value in node.items():
            yield from _objects(f"{path}/{key}", value)


def test_whatever_opentelemetry_reads_may_be_set():
    settings = ["OTEL_SERVICE_NAME=ours", "OTEL_BSP_MAX_QUEUE_SIZE=4096"]
    ours = f"--set=settings.OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318,{_settings(settings)}"
    headers = '--set-json=profiles.main.secret.keys=["DATABASE_URL","ADMIN_TOKEN",%s]'

    main = by_component(render(ours, headers % '"OTEL_EXPORTER_OTLP_HEADERS"'), "Deployment")[
        "main"
    ]

    told = environment_of(main)
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert told["OTEL_BSP_MAX_QUEUE_SIZE"] == "4096"
    assert told["OTEL_EXPORTER_OTLP_HEADERS_FILE"].endswith("/OTEL_EXPORTER_OTLP_HEADERS")


def _settings(pairs):
    return ",".join(f"settings.{pair}" for pair in pairs)


def test_large_numbers_stay_whole():
    main = by_component(render("--values", "examples/large.yaml"), "Deployment")["main"]

    assert environment_of(main)["MAX_WAITING"] == "5000000"
    assert container_of(main)["image"].startswith("registry.example.com/duebook@sha256:")


def test_the_queues_are_those_of_the_product():
    workers = [VALUES["profiles"][name]["queueScaling"] for name in _WORKERS]

    assert sorted(queue for worker in workers for queue in worker["queues"]) == sorted(
        CONSUMED_QUEUES
    )
    enum = _SCHEMA["definitions"]["queueScaling"]["properties"]["queues"]["items"]["enum"]
    assert sorted(enum) == sorted(CONSUMED_QUEUES)


def test_every_value_is_explained_beside_it_or_on_the_page():
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    lines = (CHART / "values.yaml").read_text("utf-8").splitlines()
    unexplained = [
        line.strip()
        for number, line in enumerate(lines)
        if (key := re.match(r" *([\w-]+):", line))
        and " # " not in line
        and not lines[number - 1].startswith("# ")
        and f"`{key[1]}`" not in page
    ]

    assert unexplained == []


def test_the_page_names_every_group_of_values():
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")

    assert [name for name in VALUES if f"`{name}" not in page] == []
    assert [name for name in VALUES["profiles"] if f"`{name}`" not in page] == []


def test_the_chart_has_the_products_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))

    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
