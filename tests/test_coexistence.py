"""Beside other instrumentations, in any order: their spans and the stream as without us, ours once."""

import json
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from itertools import permutations, product
from pathlib import Path

import pytest

from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events

SCRIPT = Path(__file__).with_name("coexistence.py")
OURS = "phasemeter"
SCOPES = {
    "genai-openai": "opentelemetry.instrumentation.genai.openai",
    "openinference": "openinference.instrumentation.openai",
    "traceloop": "opentelemetry.instrumentation.openai.v1",
    "httpx2": "opentelemetry.instrumentation.httpx",
}
STREAMERS = ("genai-openai", "openinference", "traceloop")


def every_order(name):
    return [list(one) for one in product(permutations([OURS, name]), repeat=2)]


# Traceloop leaves its patches in, so each of its passes has a process of its own.
CASES = {
    "genai-openai": every_order("genai-openai"),
    "openinference": every_order("openinference"),
    "httpx2": every_order("httpx2"),
    "traceloop after us": [[[OURS, "traceloop"], [OURS, "traceloop"]]],
    "traceloop before us": [[["traceloop", OURS], ["traceloop", OURS]]],
    "all, we in between": [
        [
            ["genai-openai", OURS, "openinference", "traceloop"],
            [OURS, "openinference", "genai-openai", "traceloop"],
        ]
    ],
}


def run(passes):
    names = {name for pair in passes for order in pair for name in order} - {OURS}
    for name in names:
        package = SCOPES[name].removesuffix(".v1")
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"{package} is not installed; the dependency group `test` has it")
    reply = ScriptedReply.of_events(chat_events(first_ms=10, gap_ms=10))
    with ScriptedServer(reply) as server:
        ran = subprocess.run(
            [sys.executable, SCRIPT, server.url, json.dumps(passes)],
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("passes", CASES.values(), ids=CASES)
def test_each_sees_what_it_sees_alone(passes):
    """Blocking and async; on and off one by one."""
    states = run(passes)
    chunks = states[0][1]["chunks"]
    theirs = defaultdict(list)
    before = []
    for on, *observations in states:
        if "traceloop" in before and "traceloop" not in on:
            break  # its spans go on, whoever else is on
        before = on
        for use, seen in enumerate(observations):
            assert seen["chunks"] == chunks
            check_ours(seen["ours"], on)
            theirs[use, tuple(sorted(set(on) - {OURS}))].append(seen["theirs"])
    with_and_without_us = [seen for (_, names), seen in theirs.items() if names and len(seen) > 1]
    assert with_and_without_us
    for first, *others in with_and_without_us:
        assert first
        assert all(other == first for other in others)


def check_ours(ours, on):
    """One request span with its phases; under the span of whoever traces the call of openai."""
    if OURS not in on:
        assert ours == []
        return
    (request, *phases) = ours
    assert request[0] == "chat m"
    # On a busy machine all tokens may come in one read, and then there is no decode phase.
    assert phases in ([["decode", OURS], ["prefill", OURS]], [["prefill", OURS]])
    assert request[1] in ([SCOPES[name] for name in on if name in STREAMERS] or [None])
