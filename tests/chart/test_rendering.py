"""Helm 3 and 4 take the chart, Kubernetes takes what they make of it."""

import json
import warnings

import jsonschema
import pytest

from tests.chart import operators
from tests.chart.charts import CHART, PROFILES, VALUE_SETS, component, of_kind, render, run_helm
from tests.servers.helm import RELEASES

with warnings.catch_warnings():
    import kubernetes_validate

# The oldest that Chart.yaml takes, one in wide use, and the newest of which there are schemas.
_KUBERNETES = ("1.25", "1.32", "1.37")
# Whose keys are anybody's: below a trigger of KEDA those of its kind, which test_policies looks at.
_OPEN = {"labels", "annotations", "matchLabels", "metadata"}

every_set = pytest.mark.parametrize("options", VALUE_SETS.values(), ids=VALUE_SETS)


@every_set
@pytest.mark.parametrize("release", RELEASES)
def test_helm_finds_no_fault(options, release):
    done = run_helm(release, "lint", "--strict", ".", *options)

    assert done.returncode == 0, done.stdout + done.stderr


@every_set
def test_both_releases_of_helm_make_the_same_of_it(options):
    assert render(*options, release=3) == render(*options, release=4)


def _name(document):
    return f"{document['apiVersion']}/{document['kind']}"


def _everything():
    """Each document of any set once."""
    texts = {json.dumps(doc) for options in VALUE_SETS.values() for doc in render(*options)}
    return [json.loads(text) for text in sorted(texts)]


@pytest.mark.parametrize("version", _KUBERNETES)
def test_kubernetes_takes_every_document(version):
    checked = set()

    for document in _everything():
        if _name(document) not in operators.SCHEMAS:
            kubernetes_validate.validate(document, version, strict=True)
            checked.add(document["kind"])

    assert {"Deployment", "Job", "NetworkPolicy", "HorizontalPodAutoscaler", "Ingress"} <= checked


def test_operators_take_every_document_of_theirs():
    checked = set()

    for document in _everything():
        if _name(document) in operators.SCHEMAS:
            operators.check(document)
            checked.add(_name(document))

    assert checked == operators.SCHEMAS.keys()


@pytest.mark.parametrize("name", operators.SCHEMAS)
def test_a_field_that_an_operator_does_not_know_is_found_at_every_depth(name):
    document = next(document for document in _everything() if _name(document) == name)
    spoilt = list(_spoilt(document))

    assert len(spoilt) > 3
    for one in spoilt:
        with pytest.raises(jsonschema.ValidationError):
            operators.check(one)


def _spoilt(document, path=()):
    """Copies with a field too many, in one object of the document each; maps of texts have none."""
    node = document
    for step in path:
        node = node[step]
    if isinstance(node, dict) and (len(path) < 2 or path[-1] not in _OPEN):
        copy = json.loads(json.dumps(document))
        place = copy
        for step in path:
            place = place[step]
        place["unknown"] = "field"
        yield copy
    steps = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for step in steps:
        yield from _spoilt(document, (*path, step))


def test_a_misspelt_field_and_an_unknown_kind_are_found():
    [account] = of_kind(render(), "ServiceAccount")

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**account, "automount": False}, "1.32", strict=True)
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        kubernetes_validate.validate({**account, "kind": "Acount"}, "1.32", strict=True)


def test_every_template_and_operator_is_among_the_sets():
    documents = _everything()
    templates = {path.name for path in (CHART / "templates").glob("*.yaml")}
    sources = [
        run_helm(4, "template", "due", ".", *options).stdout for options in VALUE_SETS.values()
    ]

    assert {_name(document) for document in documents} >= operators.SCHEMAS.keys()
    assert {name for name in templates if f"/templates/{name}\n" in "".join(sources)} == templates


@pytest.mark.parametrize("profile", [*PROFILES, "migrate"])
def test_a_profile_alone_brings_only_its_own(profile):
    documents = render(*VALUE_SETS[f"{profile} alone"])

    assert {component(document) for document in documents} <= {profile, None}
    assert [component(document) for document in of_kind(documents, "Deployment", "Job")] == [
        profile
    ]


def test_no_two_documents_share_a_name():
    for options in VALUE_SETS.values():
        names = [(_name(doc), doc["metadata"]["name"]) for doc in render(*options)]

        assert len(names) == len(set(names))


def test_whoever_installs_is_told_of_links_that_lead_nowhere():
    def notes(*options):
        return run_helm(4, "install", "due", ".", "--dry-run=client", *options).stdout

    assert "PUBLIC_URL is empty" in notes()
    assert "PUBLIC_URL" not in notes("--values", "examples/large.yaml").partition("NOTES:")[2]
