"""Values that are none, or that contradict each other, are refused with a reason."""

import re

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.chart.charts import (
    CHART,
    by_component,
    container_of,
    environment_of,
    refusal,
    render,
)
from tests.servers.helm import RELEASES


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
        ("--set=image.repository=registry.example.com/duebook:1.0", "repository"),
        ("--set=fullnameOverride=due.book", "fullnameOverride"),
        (r"--set=podLabels.app\.kubernetes\.io/name=ours", "podLabels"),
        ("--set=ingress.hosts[0].host=https://duebook.example.com", "host"),
        ("--set=settings.DATABASE_URL=postgresql://x", "DATABASE_URL"),
        ("--set=settings.WORKER_THREAD=3", "WORKER_THREAD"),
        ("--set=settings.HEALTH_PORT=0", "HEALTH_PORT"),
        ("--set-string=settings.HEALTH_PORT=0", "HEALTH_PORT"),
        ("--set=settings.DB_POOL_SIZE=101", "DB_POOL_SIZE"),
        ("--set-string=settings.DB_POOL_SIZE=1000", "DB_POOL_SIZE"),
        ("--set=settings.LOG_LEVEL=info", "LOG_LEVEL"),
        ("--set=settings.PUBLIC_URL=duebook.example.com", "PUBLIC_URL"),
        ("--set=settings.ALLOWED_NETWORKS=10.1.1.1", "ALLOWED_NETWORKS"),
        ("--set=settings.API_PORT=8000", "API_PORT"),
        ("--set=profiles.main.settings.PUBLIC_URL=https://duebook.example.com", "PUBLIC_URL"),
        ("--set=profiles.main.settings.WORKER_ROLES=action-worker", "WORKER_ROLES"),
        ("--set=settings.OTEL_EXPORTER_OTLP_HEADERS=k=v", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("--set=settings.OTEL_SDK_DISABLED=yes", "OTEL_SDK_DISABLED"),
        ("--set-json=settings.OTEL_TRACES_SAMPLER_ARG=0.1", "OTEL_TRACES_SAMPLER_ARG"),
        ("--set=podSecurityContext.runAsNonRoot=false", "runAsNonRoot"),
        ("--set=containerSecurityContext.readOnlyRootFilesystem=false", "readOnlyRootFilesystem"),
        ("--set-json=profiles.main.resources.limits.memory=null", "limits"),
        ("--set=profiles.main.resources.limits.memry=1Gi", "memry"),
        ("--set-json=profiles.main.secret.keys=[\"DATABASE_URL\"]", "keys"),
        ("--set=profiles.main.podDisruptionBudget.minAvailable=1", "podDisruptionBudget"),
        ("--set=profiles.main.podDisruptionBudget.minAvailable=1", "maxUnavailable"),
        ("--set=profiles.main.podDisruptionBudget.maxUnavailable=null", "maxUnavailable"),
        ("--set=profiles.trigger-worker.queueScaling.messagesPerReplica.fire=1", "fire"),
        ("--set=profiles.action-worker.queueScaling.minReplicas=0", "minReplicas"),
        ("--set=secretsAs=file", "secretsAs"),
        ("--set=certificateAuthorities.file=ca.crt", "certificateAuthorities"),
    ],
)  # fmt: skip
def test_the_schema_refuses(option, told, release):
    said = refusal(option, release=release)

    assert re.search(rf"\b{told}\b", said)
    assert "schema" in said


@pytest.mark.parametrize(
    "option",
    [
        "--set=image.repository=localhost:5000/acme/duebook",
        r"--set=podLabels.app\.kubernetes\.io/part-of=acme",
        "--set=ingress.hosts[0].host=*.example.com",
        "--set=settings.ALLOWED_NETWORKS=10.1.0.0/16\\, fd00::/8",
        "--set-string=settings.MAX_WAITING=1000000000",
        "--set=profiles.main.resources.limits.ephemeral-storage=1Gi",
        r"--set=profiles.main.resources.limits.example\.com/card=1",
    ],
)
@pytest.mark.parametrize("release", RELEASES)
def test_the_schema_takes(option, release):
    assert render(option, release=release)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([_worker("GRACE_SECONDS=60")],
         "gracePeriodSeconds (60) must be more than GRACE_SECONDS (60)"),
        (["--set=profiles.main.preStopSeconds=15"], "GRACE_SECONDS (45) + preStopSeconds (15)"),
        ([_worker("ACTION_DEADLINE_SECONDS=31")], "at least ACTION_DEADLINE_SECONDS (31) + 15"),
        ([_worker("LEASE_SECONDS=25")], "LEASE_SECONDS (25) must be more than"),
        ([_worker("RENEW_SECONDS=101")],
         "RENEW_SECONDS (101) must be at most a third of LEASE_SECONDS (300)"),
        (["--set=settings.HEALTH_HOST=127.0.0.1"],
         "HEALTH_HOST must not be of the pod alone: probes come from outside"),
        (["--set=profiles.main.settings.API_HOST=localhost"], "API_HOST must not be of the pod"),
        (["--set=profiles.main.settings.API_PORT=8080"],
         "API_PORT and HEALTH_PORT must differ, both are 8080"),
        (["--set=profiles.action-worker.queueScaling.enabled=true"], "needs AMQP_URL among"),
        (["--set-json=profiles.cron-scheduler.secret.keys=[\"DATABASE_URL\",\"AMQP_URL\"]"],
         "AMQP_URL is among profiles.*.secret.keys of cron-scheduler, but not of trigger-worker"),
        (['--set-json=profiles.main.secret.keys=["DATABASE_URL","ADMIN_TOKEN","ENCRYPTION_KEYS"]'],
         "ENCRYPTION_KEYS is among profiles.*.secret.keys of main, but not of trigger-worker"),
        (["--values=examples/large.yaml", "--set=profiles.action-worker.autoscaling.enabled=true"],
         "autoscaling and queueScaling exclude each other"),
        (["--values=examples/large.yaml", "--set=profiles.main.autoscaling.maxReplicas=2"],
         "profiles.main.autoscaling.minReplicas (3) must be at most its maxReplicas (2)"),
        (["--values=examples/large.yaml", "--set=settings.PUBLIC_URL="],
         "needs settings.PUBLIC_URL"),
        (["--values=examples/large.yaml", "--set-json=ingress.hosts=[]"],
         "ingress.enabled needs a host among ingress.hosts"),
        (["--set=certificateAuthorities.secret=a,certificateAuthorities.configMap=b"],
         "one of secret and configMap"),
        (["--values=examples/large.yaml", "--set=profiles.main.enabled=false"],
         "ingress.enabled needs profiles.main.enabled"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(options, told):
    assert told in refusal(*options)


def test_one_of_both_budgets_is_taken_in_the_place_of_the_other():
    option = "profiles.main.podDisruptionBudget"
    documents = render(f"--set={option}.maxUnavailable=null,{option}.minAvailable=50%")
    spec = by_component(documents, "PodDisruptionBudget")["main"]["spec"]

    assert spec["minAvailable"] == "50%"
    assert "maxUnavailable" not in spec


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


def test_the_chart_has_the_products_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))

    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
