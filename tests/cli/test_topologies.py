"""Which systems the options name, how many GPUs each has, and what is refused."""

import json
import subprocess
import sys

import pytest

from phasemeter.cli.topologies import Topologies, find_targets
from phasemeter.core.errors import UsageError
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events

CLASSES = ("short", "long")


def answer(prompt_tokens):
    """What a preflight's question may be answered with, whichever it is."""
    document = {
        "data": [{"id": "m"}],
        "choices": [],
        "usage": {"prompt_tokens": prompt_tokens},
        "kv_transfer_params": {"remote_port": 7},
    }
    read = ScriptedRead(0, (json.dumps(document).encode(),))
    headers = (("content-type", "application/json"),)
    return ScriptedReply([read], headers=headers, framing="length")


ANY = answer(8)


@pytest.fixture
def urls():
    """Four instances that answer every question of a preflight."""
    servers = [ScriptedServer(ANY) for _ in range(4)]
    for server in servers:
        server.__enter__()
    yield [f"{server.url.removesuffix('/v1')}/v1" for server in servers]
    for server in servers:
        server.__exit__(None, None, None)


def bases(endpoints):
    return [endpoint.base_url for endpoint in endpoints]


def test_one_instance_is_single_and_several_are_replicated(urls):
    (one,) = find_targets(Topologies(mixed=(urls[0],)), CLASSES, {}).values()
    (two,) = find_targets(Topologies(mixed=tuple(urls[:2])), CLASSES, {}).values()

    assert (one.topology, one.gpus) == ("single", 1)
    assert (two.topology, two.gpus, bases(two.endpoints)) == ("replicated", 2, urls[:2])


def test_every_topology_at_the_same_number_of_gpus(urls):
    asked = Topologies(
        mixed=tuple(urls[:2]),
        class_routed=f"short={urls[0]},long={urls[1]}",
        separated=f"prefill={urls[2]},decode={urls[3]}",
        proxied=urls[0],
        proxied_gpus=8,
        gpus_per_instance=4,
    )

    found = find_targets(asked, CLASSES, {})

    assert [(name, one.topology, one.gpus) for name, one in found.items()] == [
        ("mixed", "replicated", 8),
        ("class-routed", "class-routed", 8),
        ("separated", "separated", 8),
        ("proxied", "proxied", 8),
    ]
    assert bases(found["separated"].decode_endpoints) == [urls[3]]


def test_background_goes_with_the_short_class_and_injected_prompts_with_the_long_one(urls):
    routed = f"short={urls[0]},long={urls[1]},long={urls[2]}"
    (target,) = find_targets(Topologies(class_routed=routed), CLASSES, {}).values()

    assert target.routes == {
        "short": (0,),
        "long": (1, 2),
        "background": (0,),
        "injected": (1, 2),
    }


def test_background_and_injected_prompts_go_where_they_are_sent(urls):
    routed = f"short={urls[0]},long={urls[1]},injected={urls[0]}"
    (target,) = find_targets(Topologies(class_routed=routed), CLASSES, {}).values()

    assert bases(target.endpoints) == urls[:2]  # a URL that comes twice is one instance
    assert target.routes["injected"] == target.routes["background"] == (0,)


def test_unequal_gpu_counts_are_refused_unless_throughput_is_put_per_gpu(urls):
    asked = {"mixed": (urls[0],), "separated": f"prefill={urls[2]},decode={urls[3]}"}

    with pytest.raises(UsageError, match=r"unequal GPU counts \(mixed 1, separated 2\).*--per-gpu"):
        find_targets(Topologies(**asked), CLASSES, {})

    found = find_targets(Topologies(**asked, per_gpu=True), CLASSES, {})
    assert [one.gpus for one in found.values()] == [1, 2]
    told = find_targets(Topologies(**asked, gpus="mixed=2"), CLASSES, {})
    assert [one.gpus for one in told.values()] == [2, 2]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"proxied": "http://h/v1"}, ("--proxied-gpus", "needed")),
        ({"class_routed": "short=http://h/v1"}, ("--class-routed", "lacks class 'long'")),
        ({"class_routed": "http://h/v1"}, ("--class-routed", "CLASS=URL")),
        ({"separated": "prefill=http://h/v1"}, ("--separated", "lacks an instance")),
        ({"separated": "x=http://h/v1"}, ("--separated", "'x=http://h/v1'")),
        (
            {"separated": "prefill=http://h,decode=http://g", "bootstrap_ports": "8998"},
            ("--bootstrap-ports", "--handoff sglang"),
        ),
        (
            {
                "separated": "prefill=http://h,decode=http://g",
                "handoff": "sglang",
                "bootstrap_ports": "1,2",
            },
            ("--bootstrap-ports", "'1,2'", "1 prefill instances"),
        ),
        ({"mixed": ("http://h/v1",), "gpus": "separated=2"}, ("--gpus", "'separated=2'", "mixed")),
        ({"mixed": ("http://h/v1",), "gpus": "mixed=none"}, ("--gpus", "'mixed=none'")),
    ],
)
def test_what_is_wrong_is_told_before_anybody_is_asked(asked, words):
    with pytest.raises(UsageError) as refusal:
        find_targets(Topologies(**asked), CLASSES, {})

    assert all(word in str(refusal.value) for word in words)
    assert "\n" not in str(refusal.value)


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "phasemeter", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


STREAM = ScriptedReply.of_events(chat_events(first_ms=20, gap_ms=5))


def test_a_load_run_on_sglangs_separated_instances_tells_its_legs(tmp_path):
    """The preflight asks both for 8, 20 and 220 words; then the load comes."""
    asked = [ANY, answer(27), answer(227), ANY]
    later = ScriptedReply.of_events(chat_events(first_ms=500, gap_ms=5))
    with ScriptedServer(*asked, STREAM) as prefill, ScriptedServer(ANY, *asked, later) as decode:
        status, out, err = run(
            *("load", "--separated", f"prefill={prefill.url},decode={decode.url}"),
            *("--handoff", "sglang", "--bootstrap-ports", 9001, "--api", "chat", "--model", "m"),
            *("--users", 1, "--requests", 3, "--mix", "all=100%:8/8", "-o", tmp_path / "run"),
            "--json",
        )
        bodies = [
            [json.loads(one.body) for one in server.served if one.body]
            for server in (prefill, decode)
        ]

    assert status == 0, err
    document = json.loads(out)
    assert document["requests"]["ok"] == 3
    for name, count in (("prefill_leg", 3), ("handoff", 0), ("decode_leg", 3)):
        assert document["metrics"][name]["count"] == count
    assert bodies[0] == bodies[1]
    assert len({body["bootstrap_room"] for body in bodies[0]}) == len(bodies[0]) == 6
    assert {body["bootstrap_port"] for body in bodies[0]} == {9001}
    assert [body["stream"] for body in bodies[0]] == [False] * 3 + [True] * 3
    status, text, _ = run("report", tmp_path / "run")
    assert status == 0
    assert "decode_leg" in text
    assert "decode_leg holds it all" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", "--users", "1", "--duration", "1s"),
        (
            *("load", "http://127.0.0.1:9/v1", "--separated", "prefill=http://h,decode=http://g"),
            *("--users", "1", "--duration", "1s"),
        ),
    ],
)
def test_a_load_run_has_exactly_one_target(arguments):
    status, _, err = run(*arguments)

    assert status == 2
    assert "URL, --separated, --class-routed: exactly one is needed" in err
