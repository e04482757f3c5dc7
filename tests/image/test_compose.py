import re
import shlex

import pytest

from shared.settings import read_settings
from tests.image.dockerfile import (
    COMPOSE,
    DOCKERFILE,
    compose,
    documented_commands,
    documented_keys,
    our_services,
)

_OURS = our_services()


def test_the_processes_are_those_of_the_page_of_settings_with_the_same_commands():
    commands = [shlex.join(each["command"]) for each in _OURS.values()]

    assert len(commands) == 4
    assert sorted(commands) == sorted(documented_commands())


def test_every_key_is_a_setting():
    keys = {key for each in _OURS.values() for key in each["environment"]}

    assert keys
    assert keys <= documented_keys()


@pytest.mark.parametrize("name", _OURS)
def test_the_settings_of_a_process_are_valid(monkeypatch, name):
    for key in documented_keys():
        monkeypatch.delenv(key, raising=False)
    for key, value in _OURS[name]["environment"].items():
        monkeypatch.setenv(key, value)

    settings = read_settings("cli" if name == "migrate" else name)

    grace = int(_OURS[name].get("stop_grace_period", "61s").removesuffix("s"))
    assert grace > settings.grace_seconds


def test_every_image_that_is_not_ours_names_its_release():
    images = {
        name: each["image"] for name, each in compose()["services"].items() if name not in _OURS
    }

    assert images.keys() == {"postgres", "rabbitmq", "redis"}
    assert all(re.search(r":\d+\.\d+[\w.-]*$", image) for image in images.values())


def test_ours_is_one_image_of_the_one_dockerfile():
    assert {each["image"] for each in _OURS.values()} == {"duebook:dev"}
    for each in _OURS.values():
        context = COMPOSE.parent / each["build"]["context"]
        assert (context / each["build"]["dockerfile"]).samefile(DOCKERFILE)


def test_ours_may_write_nowhere_and_do_nothing_special():
    for each in _OURS.values():
        assert each["read_only"] is True
        assert each["tmpfs"] == ["/tmp"]
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]


def test_every_service_tells_whether_it_is_well_and_those_waited_for_exist():
    services = compose()["services"]

    assert [name for name, each in services.items() if "healthcheck" not in each] == ["migrate"]
    for each in services.values():
        for name, wanted in each.get("depends_on", {}).items():
            healthy = "healthcheck" in services[name]
            reached = "service_healthy" if healthy else "service_completed_successfully"
            assert wanted == {"condition": reached}


def test_nobody_but_the_machine_itself_is_let_in():
    ports = [port for each in compose()["services"].values() for port in each.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_is_mounted_exists():
    services = compose()["services"].values()
    volumes = [volume.split(":")[0] for each in services for volume in each.get("volumes", [])]
    files = [COMPOSE.parent / volume for volume in volumes if volume.startswith(".")]

    assert len(files) == 1
    assert all(path.is_file() for path in files)
    assert {volume for volume in volumes if not volume.startswith(".")} == set(compose()["volumes"])
