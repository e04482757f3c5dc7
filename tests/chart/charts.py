"""The chart as Helm renders it: documents, and what policies ask of them."""

import subprocess
from functools import cache

import yaml

from tests.architecture.source import ROOT
from tests.servers.helm import helm

CHART = ROOT / "deploy/k8s"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
PROFILES = tuple(VALUES["profiles"])


def _alone(profile):
    """The options that leave one profile, or the hook, of all."""
    switches = {f"profiles.{name}": name == profile for name in PROFILES}
    switches["migrate"] = profile == "migrate"
    return [f"--set={name}.enabled={str(on).lower()}" for name, on in switches.items()]


VALUE_SETS = {
    "defaults": [],
    "small": ["--values", "examples/small.yaml"],
    "large": ["--values", "examples/large.yaml"],
    "environment": ["--set=secretsAs=environment,serviceAccount.create=false"],
    "authorities": ["--set=certificateAuthorities.configMap=company"],
    **{f"{profile} alone": _alone(profile) for profile in (*PROFILES, "migrate")},
}


def run_helm(release, *arguments):
    """Run Helm in the chart's folder and return what came of it."""
    return subprocess.run([helm(release), *arguments], cwd=CHART, capture_output=True, text=True)


@cache
def render(*options, release=4):
    """Return the documents of a release named "due" with these options."""
    done = run_helm(release, "template", "due", ".", *options)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refusal(*options, release=4):
    """Return what Helm says of options that the chart has to refuse."""
    done = run_helm(release, "template", "due", ".", *options)
    assert done.returncode == 1, f"{options} were taken"
    return done.stderr


def of_kind(documents, *kinds):
    """The documents of these kinds."""
    return [document for document in documents if document["kind"] in kinds]


def component(document):
    """The profile, or the hook, to which a document belongs."""
    return document["metadata"]["labels"].get("app.kubernetes.io/component")


def by_component(documents, kind):
    """The documents of a kind by their profile."""
    return {component(document): document for document in of_kind(documents, kind)}


def pod_of(document):
    """The specification of the pods of a Deployment or Job."""
    return document["spec"]["template"]["spec"]


def container_of(document):
    """Its only container."""
    [container] = pod_of(document)["containers"]
    return container


def environment_of(document):
    """The variables with a value, by name."""
    return {
        item["name"]: item["value"] for item in container_of(document)["env"] if "value" in item
    }


def ports_of(document):
    """The container's ports by name."""
    return {port["name"]: port["containerPort"] for port in container_of(document)["ports"]}
