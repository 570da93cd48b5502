"""The Meter: sinks apart from each other, tags, snapshots, exact names at the top of the package."""

import json
import threading

import httpx2
import pytest

import phasemeter
from phasemeter import sdk
from phasemeter.core.errors import UsageError
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events


def quick_reply():
    return ScriptedReply.of_events(chat_events(first_ms=2, gap_ms=1))


def post(client, server, model="m"):
    url = server.url + "/v1/chat/completions"
    return client.post(url, json={"stream": True, "model": model})


class Broken:
    """A sink that fails whenever it can."""

    def started(self, request):
        raise RuntimeError

    def finished(self, timeline, state):
        raise RuntimeError

    def close(self):
        raise RuntimeError


def test_a_failing_sink_reaches_neither_the_user_nor_other_sinks(monkeypatch, caplog):
    """Each fault is logged once, without any text of the request."""
    monkeypatch.delenv("PHASEMETER_STRICT", raising=False)
    got = []
    meter = phasemeter.Meter(sinks=[Broken(), phasemeter.CallbackSink(got.append)])

    with ScriptedServer(quick_reply()) as server, meter.wrap(httpx2.Client()) as client:
        for _ in range(2):
            assert post(client, server).status_code == 200
    meter.close()

    assert len(got) == 2
    assert sum("telling Broken" in record.message for record in caplog.records) == 2


def test_sinks_get_their_own_state_back(monkeypatch):
    """What started returned comes back with the same request's Timeline."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    pairs = []

    class Pairing:
        def started(self, request):
            return request

        def finished(self, timeline, state):
            pairs.append((state, timeline))

        def close(self):
            pairs.append("closed")

    meter = phasemeter.Meter(sinks=[Pairing(), Pairing()])
    with ScriptedServer(quick_reply()) as server, meter.wrap(httpx2.Client()) as client:
        post(client, server)
    meter.close()

    assert pairs[2:] == ["closed", "closed"]
    for request, timeline in pairs[:2]:
        assert request.request_id == timeline.request_id
        assert request.started_ns == timeline.started_ns
        assert (request.server_address, request.streamed) == ("127.0.0.1", True)


def test_tags_land_in_the_timelines_of_the_requests_started_inside(monkeypatch):
    """And group the snapshot, which is ready for JSON."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    got = []
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(got.append), phasemeter.HdrSink()])
    with ScriptedServer(quick_reply()) as server, meter.wrap(httpx2.Client()) as client:
        with phasemeter.tag(feature="rag"):
            post(client, server)
        post(client, server)

    assert [one.tags for one in got] == [{"feature": "rag"}, {}]
    groups = json.loads(json.dumps(meter.snapshot()))["groups"]
    assert [(one["model"], one["tags"]) for one in groups] == [("m", {"feature": "rag"}), ("m", {})]
    assert set(groups[0]["metrics"]["ttft"]) == {
        "count",
        "p50",
        "p90",
        "p99",
        "p999",
        "max",
        "unit",
    }


def test_a_snapshot_without_an_hdr_sink_is_refused():
    """The line says what to give."""
    with pytest.raises(UsageError, match="needs an HdrSink"):
        phasemeter.Meter(sinks=[]).snapshot()


def test_many_threads_share_a_meter(monkeypatch):
    """Every request is counted once."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    meter = phasemeter.Meter(sinks=[phasemeter.HdrSink()])

    with ScriptedServer(quick_reply()) as server, meter.wrap(httpx2.Client()) as client:
        threads = [
            threading.Thread(target=lambda: [post(client, server) for _ in range(5)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    (group,) = meter.snapshot()["groups"]
    assert group["outcomes"] == {"ok": 20}
    assert group["metrics"]["ttft"]["count"] == 20
    # A thread that waits for its turn limits gaps, which are raw ones only.
    assert group["metrics"]["gap_raw"]["count"] + group["coalesced"] == 20 * 7


def test_module_functions_use_one_default_meter(monkeypatch):
    """Made at first use, with histograms and OpenTelemetry."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    monkeypatch.setattr(sdk, "_default", None)

    for _ in phasemeter.time_stream(["a", "b"], model="m1"):
        pass
    with ScriptedServer(quick_reply()) as server, phasemeter.wrap(httpx2.Client()) as client:
        response = post(client, server, model="m2")

    assert phasemeter.timeline(response).outcome == "ok"
    assert {group["model"] for group in phasemeter.snapshot()["groups"]} == {"m1", "m2"}
    assert sdk.default_meter() is sdk.default_meter()


def test_two_meters_may_time_one_client(monkeypatch):
    """Each gets its own record of the same reads."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    first, second = [], []
    meters = [
        phasemeter.Meter(sinks=[phasemeter.CallbackSink(one.append)]) for one in (first, second)
    ]

    with ScriptedServer(quick_reply()) as server, httpx2.Client() as client:
        post(meters[1].wrap(meters[0].wrap(client)), server)

    assert len(first) == len(second) == 1
    assert first[0].events == second[0].events


def test_no_prompt_answer_or_key_is_in_any_record(monkeypatch, tmp_path):
    """Private by default: the record file holds none of the texts."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")
    events = [(t_ms, data.replace('"ab"', '"answertext"')) for t_ms, data in chat_events(gap_ms=1)]
    path = tmp_path / "records.jsonl"
    meter = phasemeter.Meter(sinks=[phasemeter.RecordSink(path)])
    with (
        ScriptedServer(ScriptedReply.of_events(events)) as server,
        meter.wrap(httpx2.Client(headers={"authorization": "Bearer keytext"})) as client,
    ):
        body = {
            "stream": True,
            "model": "m",
            "messages": [{"role": "user", "content": "prompttext"}],
        }
        response = client.post(server.url + "/chat/completions", json=body)
    meter.close()

    assert "answertext" in response.text
    written = path.read_text()
    assert '"outcome":"ok"' in written
    for text in ("answertext", "prompttext", "keytext"):
        assert text not in written
