"""The SDK examples run against a real server and print what they promise."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events
from tests.clients.wires import MESSAGES

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, server, url=None):
    environment = {
        **os.environ,
        "PHASEMETER_BASE_URL": url or server.url + "/v1",
        "PHASEMETER_MODEL": "scripted",
        "PHASEMETER_STRICT": "1",
    }
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def documents(printed):
    decoder = json.JSONDecoder()
    while printed := printed.lstrip():
        document, end = decoder.raw_decode(printed)
        printed = printed[end:]
        yield document


@pytest.fixture
def server():
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=40, gap_ms=10))) as server:
        yield server


def test_wrap_openai_prints_the_phases(server):
    """Prefill of the scripted 40 ms and more; gaps, fewer where reads were coalesced."""
    printed = run("wrap_openai.py", server)

    assert "outcome ok, stamps by recv" in printed
    (prefill_ms,) = re.findall(r"prefill ([\d.]+) ms", printed)
    assert float(prefill_ms) >= 40
    assert re.search(r"\d gaps, longest [\d.]+ ms", printed)


def test_wrap_anthropic_prints_the_kinds_of_tokens():
    """Through the messages helper."""
    with ScriptedServer(MESSAGES.reply()) as server:
        printed = run("wrap_anthropic.py", server, url=server.url)

    assert "ababababab\noutcome ok, 5 tokens\ntoken events: 5 content\n" in printed


def test_otel_console_prints_three_spans_under_the_callers(server):
    """prefill, decode, the request, and the span around it."""
    printed = run("otel_console.py", server)

    spans = {span["name"]: span for span in documents(printed)}
    request = spans["chat scripted"]
    assert set(spans) == {"prefill", "decode", "chat scripted", "answer a question"}
    assert request["parent_id"] == spans["answer a question"]["context"]["span_id"]
    assert spans["decode"]["parent_id"] == request["context"]["span_id"]
    assert request["attributes"]["phasemeter.outcome"] == "ok"


def test_instrument_times_two_libraries_and_gets_the_token_counts(server):
    """Through openai and through httpx2, in one group."""
    printed = run("instrument.py", server)

    assert "tokens 8\nstamps by recv\n" in printed
    assert re.search(r"^scripted: 2 requests, ttft p50 [\d.]+ ms$", printed, re.MULTILINE)
    assert all(b"include_usage" in served.body for served in server.served)
