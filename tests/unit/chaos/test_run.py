import pytest

from tests.chaos.run import clear


def test_what_an_earlier_run_left_goes(tmp_path):
    for name in ("timeline.txt", "00-api.log"):
        (tmp_path / name).touch()

    clear(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.txt").touch()

    with pytest.raises(ValueError, match="not of an earlier run"):
        clear(tmp_path)

    assert (tmp_path / "thesis.txt").exists()


def test_a_folder_that_is_not_there_is_made(tmp_path):
    clear(tmp_path / "a" / "b")

    assert (tmp_path / "a" / "b").is_dir()
