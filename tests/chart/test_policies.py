"""What has to be true of every pod, whatever the values."""

import json

import pytest
import yaml

from shared.db.roles import API, SCANNER, WORKER
from tests.architecture.source import ROOT
from tests.chart.charts import (
    CHART,
    PROFILES,
    VALUE_SETS,
    by_component,
    component,
    container_of,
    environment_of,
    of_kind,
    pod_of,
    ports_of,
    render,
)

_LONGEST_ACTION = 20  # the default of ACTION_DEADLINE_SECONDS
_GRACE = 45  # of GRACE_SECONDS

every_set = pytest.mark.parametrize("options", VALUE_SETS.values(), ids=VALUE_SETS)


def _workloads(options):
    return of_kind(render(*options), "Deployment", "Job")


@every_set
def test_containers_are_confined(options):
    for document in _workloads(options):
        pod, container = pod_of(document), container_of(document)
        security = container["securityContext"]

        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()


@every_set
def test_no_pod_has_a_token(options):
    documents = render(*options)

    assert {pod_of(doc)["automountServiceAccountToken"] for doc in _workloads(options)} == {False}
    for account in of_kind(documents, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


@every_set
def test_memory_is_limited_and_images_are_named(options):
    for document in _workloads(options):
        container = container_of(document)
        _, _, tag = container["image"].rpartition("/")[2].partition(":")

        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert tag not in ("", "latest")


@every_set
def test_a_deployment_is_probed_and_ends_in_time(options):
    for document in of_kind(render(*options), "Deployment"):
        container, settings = container_of(document), environment_of(document)
        probes = [
            container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
        ]
        before = int(container.get("lifecycle", {}).get("preStop", {"exec": {"command": [0]}})
                     ["exec"]["command"][-1])  # fmt: skip
        left = pod_of(document)["terminationGracePeriodSeconds"] - before

        assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
        assert {probe["port"] for probe in probes} == {"health"}
        assert ports_of(document)["health"] == int(settings["HEALTH_PORT"])
        assert left > int(settings.get("ACTION_DEADLINE_SECONDS", _LONGEST_ACTION))
        assert left > int(settings.get("GRACE_SECONDS", _GRACE))


@every_set
def test_every_deployment_has_its_budget_and_policy_and_they_choose_its_pods(options):
    documents = render(*options)
    deployments = by_component(documents, "Deployment")
    policies = by_component(documents, "NetworkPolicy")
    walled = "examples/small.yaml" not in options

    assert by_component(documents, "PodDisruptionBudget").keys() == deployments.keys()
    assert policies.keys() == ({component(doc) for doc in _workloads(options)} if walled else set())
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "Service"):
        for document in of_kind(documents, kind):
            spec = document["spec"]
            chosen = spec.get("podSelector", spec.get("selector"))
            _assert_chosen(documents, component(document), chosen.get("matchLabels", chosen))


def _assert_chosen(documents, profile, labels):
    """The labels choose the pods of this profile and no others."""
    chosen = {
        component(document)
        for document in of_kind(documents, "Deployment", "Job")
        if labels.items() <= document["spec"]["template"]["metadata"]["labels"].items()
    }
    assert chosen == {profile}


@every_set
def test_replicas_are_said_by_one_alone(options):
    documents = render(*options)
    scaled = [doc["spec"]["scaleTargetRef"]["name"]
              for doc in of_kind(documents, "HorizontalPodAutoscaler", "ScaledObject")]  # fmt: skip
    fixed = [
        doc["metadata"]["name"]
        for doc in of_kind(documents, "Deployment")
        if "replicas" in doc["spec"]
    ]
    every = [doc["metadata"]["name"] for doc in of_kind(documents, "Deployment")]

    assert sorted(scaled + fixed) == sorted(every)


def test_each_process_has_a_secret_of_its_own():
    for options in VALUE_SETS.values():
        names = [
            volume["secret"]["secretName"]
            for document in _workloads(options)
            for volume in pod_of(document)["volumes"]
            if "secret" in volume
        ]
        assert len(names) == len(set(names))


@every_set
def test_a_secret_is_never_a_value(options):
    for document in _workloads(options):
        values = environment_of(document)
        secrets = {"DATABASE_URL", "AMQP_URL", "REDIS_URL", "ADMIN_TOKEN", "ENCRYPTION_KEYS"}
        secrets.add("OTEL_EXPORTER_OTLP_HEADERS")

        assert not secrets & values.keys()
        given = {item["name"] for item in container_of(document)["env"] if "valueFrom" in item}
        files = {name.removesuffix("_FILE") for name in values if name.endswith("_FILE")}
        assert "DATABASE_URL" in given | files
        assert not given & files


@pytest.mark.parametrize(
    ("kind", "source"),
    [("configMap", {"name": "company"}), ("secret", {"secretName": "company", "defaultMode": 292})],
)
def test_authorities_are_mounted_for_every_process_to_read(kind, source):
    option = f"--set=certificateAuthorities.{kind}=company,certificateAuthorities.key=all.pem"

    for document in _workloads([option]):
        [volume] = [vol for vol in pod_of(document)["volumes"] if vol["name"] == "authorities"]
        mounts = container_of(document)["volumeMounts"]
        folder = {"name": "authorities", "mountPath": "/run/duebook/ca", "readOnly": True}

        assert volume[kind] == {**source, "items": [{"key": "all.pem", "path": "ca.crt"}]}
        assert folder in mounts
        assert environment_of(document)["SSL_CERT_FILE"] == "/run/duebook/ca/ca.crt"


def test_without_authorities_nothing_is_said_of_them():
    for document in _workloads([]):
        assert "SSL_CERT_FILE" not in environment_of(document)
        assert "authorities" not in [volume["name"] for volume in pod_of(document)["volumes"]]


def test_workers_reach_the_public_and_nobody_else_does():
    policies = by_component(render(), "NetworkPolicy")
    to_everybody = {
        name
        for name, policy in policies.items()
        for rule in policy["spec"]["egress"]
        if {"port": 443} in rule["ports"]
    }

    assert to_everybody == {"trigger-worker", "action-worker"}
    for name in to_everybody:
        [v4, v6] = [peer["ipBlock"] for peer in policies[name]["spec"]["egress"][-1]["to"]]
        assert "169.254.0.0/16" in v4["except"]
        assert "fc00::/7" in v6["except"]


def test_what_actions_may_call_is_let_through():
    policy = by_component(render("--values", "examples/large.yaml"), "NetworkPolicy")[
        "action-worker"
    ]
    rule = policy["spec"]["egress"][-1]

    assert {"ipBlock": {"cidr": "10.20.0.0/16"}} in rule["to"]
    assert rule["ports"] == [{"port": 443}, {"port": 8443}]


def test_queue_scalers_count_the_queues_of_their_worker_with_its_own_login():
    documents = render("--values", "examples/large.yaml")
    scalers = by_component(documents, "ScaledObject")
    queues = {
        name: [trigger["metadata"]["queueName"] for trigger in scaler["spec"]["triggers"]]
        for name, scaler in scalers.items()
    }
    login = by_component(documents, "TriggerAuthentication")["action-worker"]

    assert queues == {
        "trigger-worker": ["scheduled_action_fire"],
        "action-worker": ["action_execute", "tracking_click"],
    }
    assert login["spec"]["secretTargetRef"] == [
        {"parameter": "host", "name": "duebook-action-worker", "key": "AMQP_URL"}
    ]


def test_every_profile_is_scraped():
    documents = render("--values", "examples/large.yaml")
    [monitor] = of_kind(documents, "ServiceMonitor")
    labels = monitor["spec"]["selector"]["matchLabels"]
    scraped = {component(doc): doc for doc in of_kind(documents, "Service")
               if labels.items() <= doc["metadata"]["labels"].items()}  # fmt: skip

    assert scraped.keys() == set(PROFILES)
    assert monitor["spec"]["endpoints"][0]["path"] == "/metrics"
    assert monitor["spec"]["endpoints"][0]["port"] == "health"
    for service in scraped.values():
        assert service["spec"]["ports"][0]["name"] == "health"


def test_the_alarms_are_those_of_the_file():
    [rule] = of_kind(render("--values", "examples/large.yaml"), "PrometheusRule")

    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text("utf-8"))
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_that_of_the_file():
    [dashboard] = of_kind(render("--values", "examples/large.yaml"), "ConfigMap")
    written = (CHART / "files/dashboard.json").read_text("utf-8")

    assert dashboard["data"] == {"duebook.json": written}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(written)["panels"]


def test_the_migration_comes_first():
    [job] = of_kind(render(), "Job")
    [policy] = [doc for doc in of_kind(render(), "NetworkPolicy") if component(doc) == "migrate"]

    for document in (job, policy):
        assert document["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    weights = [int(doc["metadata"]["annotations"]["helm.sh/hook-weight"]) for doc in (policy, job)]
    assert weights == sorted(set(weights))
    assert "serviceAccountName" not in pod_of(job)


def test_the_image_is_started_as_it_is_made():
    dockerfile = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    main = by_component(render(), "Deployment")["main"]
    user = pod_of(main)["securityContext"]

    assert f"\nCMD {json.dumps(container_of(main)['command'])}\n" in dockerfile
    assert f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n" in dockerfile


def test_the_page_makes_a_secret_and_a_login_for_each_process():
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")

    for document in _workloads([]):
        [name] = [
            vol["secret"]["secretName"] for vol in pod_of(document)["volumes"] if "secret" in vol
        ]
        assert f"create secret generic {name} " in page
    assert [role for role in (API, SCANNER, WORKER) if f"GRANT {role} TO" not in page] == []
