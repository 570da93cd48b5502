import json

import pytest

from phasemeter.load import run_folder
from phasemeter.load.target import RequestStyle, Target, parse_endpoint


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["-H", "Authorization: Bearer k3y"], ["-H", "REDACTED"]),
        (["-HAuthorization: Bearer k3y"], ["-HREDACTED"]),
        (["--header", "X: k3y", "--seed", "1"], ["--header", "REDACTED", "--seed", "1"]),
        (["--header=X: k3y"], ["--header=REDACTED"]),
        (["http://h/v1?api-key=k3y"], ["http://h/v1?REDACTED"]),
        (["http://h/v1?a=k3y,k3y&b=k3y"], ["http://h/v1?REDACTED"]),
        (["http://h/v1?k3y"], ["http://h/v1?REDACTED"]),
        (["http://h/v1#k3y"], ["http://h/v1?REDACTED"]),
        (
            ["prefill=http://h/v1?key=k3y,decode=http://g/v1?key=k3y"],
            ["prefill=http://h/v1?REDACTED,decode=http://g/v1?REDACTED"],
        ),
        (
            ["short=http://h/v1?key=k3y,long=http://g/v1?key=k3y"],
            ["short=http://h/v1?REDACTED,long=http://g/v1?REDACTED"],
        ),
        (["--mix", "short=60%:256/128"], ["--mix", "short=60%:256/128"]),
    ],
)
def test_a_command_line_is_kept_without_its_secrets(given, kept):
    assert run_folder.redacted(["/somewhere/bin/phasemeter", *given]) == ["phasemeter", *kept]


def test_the_manifest_holds_what_was_asked_for_and_no_query(tmp_path):
    endpoint, _ = parse_endpoint("http://h:1/v1?api-key=k3y")
    target = Target("single", (endpoint,), RequestStyle("chat", "m"))

    run_folder.write_manifest(tmp_path, "load", {"target": target.as_document(), "seed": 3})

    text = (tmp_path / "run.json").read_text()
    manifest = json.loads(text)
    assert "k3y" not in text
    assert "k3y" not in repr(endpoint)
    assert (manifest["schema"], manifest["kind"], manifest["seed"]) == (1, "load", 3)
    assert manifest["host"]["python"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_folders_that_are_not_named_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    folder = run_folder.create(None, "load")

    assert folder.parent.name == "runs"
    assert folder.name.startswith("load-")
    assert folder.is_dir()
