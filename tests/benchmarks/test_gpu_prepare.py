"""What is fetched for a GPU machine, without fetching it."""

import re

import pytest

from benchmarks.gpu import prepare


def test_our_own_requirements_come_from_the_project_with_nested_extras():
    found = {prepare.name_of(one) for one in prepare.our_requirements(("load", "gpu"))}

    assert {"click", "httptools", "numpy", "plotly", "rich", "jinja2", "nvidia-ml-py"} <= found
    assert "phasemeter" not in found
    assert "openai" not in found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("numpy>=2.0", "numpy"),
        ("httpx[http2]>=0.27 ; python_version > '3.11'", "httpx"),
        ("Typing_Extensions==4.15.0", "typing-extensions"),
        ("nvidia_nccl.cu13", "nvidia-nccl-cu13"),
        ("torch @ file:///wheels/torch.whl", "torch"),
    ],
)
def test_names_are_normalised(text, name):
    assert prepare.name_of(text) == name


def test_versions_that_are_there_bind_what_is_fetched():
    listed = "numpy==2.5.2\ntorch==2.11.0+cu130\n# a comment\nrich\nx @ file:///x.whl\n\n"

    assert prepare.pinned(listed) == ["numpy==2.5.2"]
    assert prepare.installed_names(listed) == {"numpy", "torch", "rich", "x"}


def test_wheels_are_asked_for_the_other_machine(tmp_path):
    command = prepare.download_command(tmp_path, ["a", "b"], "3.12", "aarch64", tmp_path / "c.txt")

    platforms = [command[n + 1] for n, word in enumerate(command) if word == "--platform"]
    assert "manylinux_2_28_aarch64" in platforms
    assert all(name.endswith("_aarch64") for name in platforms)
    assert command[command.index("--python-version") + 1] == "3.12"
    assert "--only-binary=:all:" in command
    assert command[-2:] == ["a", "b"]


def test_what_is_there_already_is_not_carried(tmp_path):
    for name in ("numpy-2.5.2-cp312-cp312-x.whl", "hdrhistogram-0.10.8-cp312-cp312-x.whl"):
        (tmp_path / name).write_bytes(b"wheel")

    assert prepare.without_installed(tmp_path, {"numpy"}) == ["numpy"]
    assert [one.name for one in tmp_path.iterdir()] == ["hdrhistogram-0.10.8-cp312-cp312-x.whl"]


def test_the_one_command_needs_no_network(tmp_path):
    command = prepare.run_command(tmp_path)

    assert "--no-index" in command
    assert re.search(r"PYTHONPATH=src:\S+ python3 -m benchmarks\.gpu\.run ", command)


def test_an_index_that_lacks_something_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    status = prepare.main([str(tmp_path / "wheels"), "--python-version", "3.12"])

    said = capsys.readouterr().err
    assert status == 1
    assert said.startswith("benchmarks.gpu.prepare: ERROR")
    assert len(said.strip().splitlines()) == 1
