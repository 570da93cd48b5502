"""instrument(): every client of the process, once, and without a trace afterwards."""

import asyncio
import gc
import json
import subprocess
import sys
import textwrap
import threading
import weakref
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import anthropic
import openai
import pytest

import phasemeter
from phasemeter.clients import process_wide
from phasemeter.core.timeline import Outcome
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from phasemeter.transports.timing import AsyncTimingTransport, TimingTransport

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
FAMILIES = {name: import_module(name) for name in ("httpx", "httpx2") if find_spec(name)}
LIBRARY = list(FAMILIES.values())[-1]
CLASSES = [cls for one in FAMILIES.values() for cls in (one.Client, one.AsyncClient)]
ORIGINALS = [vars(cls)["_transport_for_url"] for cls in CLASSES]
MESSAGE = (
    '{"type":"message_start","message":{"id":"i","type":"message","role":"assistant","content":[],'
    '"model":"c","usage":{"input_tokens":3,"output_tokens":1}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
    '{"type":"message_stop"}',
)


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])


@pytest.fixture(autouse=True)
def undone():
    yield
    phasemeter.uninstrument()
    assert [vars(cls)["_transport_for_url"] for cls in CLASSES] == ORIGINALS


@pytest.fixture
def server():
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=2, gap_ms=1))) as server:
        yield server


def post(client, server):
    response = client.post(server.url + "/v1/chat/completions", json=BODY)
    assert response.status_code == 200
    return response


def run_sync(family, server):
    with family.Client() as client:
        return post(client, server)


def run_async(family, server):
    async def go():
        async with family.AsyncClient() as client:
            return await client.post(server.url + "/v1/chat/completions", json=BODY)

    return asyncio.run(go())


@pytest.mark.parametrize("run", [run_sync, run_async])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_plain_clients_are_timed_until_it_is_undone(run, family, meter, timelines, server):
    phasemeter.instrument(meter=meter)
    response = run(family, server)
    phasemeter.uninstrument()
    run(family, server)

    (timeline,) = timelines
    assert phasemeter.timeline(response) is timeline
    assert (timeline.outcome, timeline.stamp_source) == (Outcome.OK, "recv")
    assert timeline.usage.output_tokens == 8


def test_clients_made_before_mounts_and_subclasses(meter, timelines, server):
    """No client object is touched."""

    class Mine(LIBRARY.Client):
        pass

    with Mine() as before, LIBRARY.Client(mounts={"http://": LIBRARY.HTTPTransport()}) as mounted:
        kept = before._transport
        phasemeter.instrument(meter=meter)
        post(before, server)
        post(mounted, server)
        assert before._transport is kept

    assert [one.outcome for one in timelines] == [Outcome.OK] * 2


def test_openai_and_anthropic_clients(meter, timelines, server):
    """Blocking and async, made before and after."""
    options = {"base_url": server.url, "api_key": "k", "max_retries": 0}
    before = openai.OpenAI(**options)
    phasemeter.instrument(meter=meter)

    async def go():
        async with openai.AsyncOpenAI(**options) as client:
            stream = await client.chat.completions.create(**BODY)
            return [chunk async for chunk in stream]

    with before:
        chunks = list(before.chat.completions.create(**BODY))
    assert len(asyncio.run(go())) == len(chunks) == 11
    events = [f"event: {json.loads(data)['type']}\ndata: {data}\n\n" for data in MESSAGE]
    reply = ScriptedReply([ScriptedRead(1, (event.encode(),)) for event in events])
    with ScriptedServer(reply) as other:
        client = anthropic.Anthropic(base_url=other.url, api_key="k", max_retries=0)
        with (
            client,
            client.messages.stream(model="c", max_tokens=9, messages=BODY["messages"]) as stream,
        ):
            assert "".join(stream.text_stream) == "Hi"

    assert [one.dialect for one in timelines] == ["openai.chat"] * 2 + ["anthropic.messages"]
    assert {one.outcome for one in timelines} == {Outcome.OK}


def test_other_requests_pass_untouched(meter, timelines, server):
    phasemeter.instrument(meter=meter)
    with LIBRARY.Client() as client:
        client.get(server.url + "/v1/models")

    assert timelines == []


def test_again_it_changes_what_is_given_and_keeps_the_rest(meter, timelines, server):
    """One record a request however often it is called."""
    others = []
    phasemeter.instrument(meter=meter, inject_usage=True)
    phasemeter.instrument()
    run_sync(LIBRARY, server)
    phasemeter.instrument(meter=phasemeter.Meter([phasemeter.CallbackSink(others.append)]))
    run_sync(LIBRARY, server)
    phasemeter.instrument(inject_usage=False)
    run_sync(LIBRARY, server)

    assert (len(timelines), len(others)) == (1, 2)
    asked = ["include_usage" in str(served.body) for served in server.served]
    assert asked == [True, True, False]


def test_a_wrapped_client_reports_to_its_own_meter_and_once(meter, timelines, server):
    """Wrapped before or after, by whichever Meter, twice."""
    mine = []
    own = phasemeter.Meter([phasemeter.CallbackSink(mine.append)])
    with own.wrap(LIBRARY.Client()) as before:
        phasemeter.instrument(meter=meter)
        post(before, server)
    with own.wrap(own.wrap(LIBRARY.Client())) as after:
        post(after, server)
    with meter.wrap(LIBRARY.Client()) as same:
        post(same, server)

    assert (len(mine), len(timelines)) == (2, 1)


def test_a_stream_in_flight_is_timed_to_its_end(meter, timelines, server):
    phasemeter.instrument(meter=meter)
    with (
        LIBRARY.Client() as client,
        client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
    ):
        phasemeter.uninstrument()
        response.read()

    assert timelines[0].outcome is Outcome.OK


class Other:
    """A library that patches the same method, in its own way, and takes its patch out again."""

    def __init__(self):
        self.seen = 0

    def patch(self):
        self.original = LIBRARY.Client._transport_for_url

        def mine(client, url):
            self.seen += 1
            return self.original(client, url)

        LIBRARY.Client._transport_for_url = self.mine = mine

    def unpatch(self):
        LIBRARY.Client._transport_for_url = self.original


def test_a_patch_over_ours_is_left_alone(meter, timelines, server):
    """Ours under it does nothing any more; on again, there is one record."""
    other = Other()
    phasemeter.instrument(meter=meter)
    other.patch()
    run_sync(LIBRARY, server)
    phasemeter.uninstrument()
    assert LIBRARY.Client._transport_for_url is other.mine
    run_sync(LIBRARY, server)
    assert (other.seen, len(timelines)) == (2, 1)
    for _ in range(2):
        phasemeter.instrument(meter=meter)
        run_sync(LIBRARY, server)
        phasemeter.uninstrument()
        assert LIBRARY.Client._transport_for_url is other.mine
    assert (other.seen, len(timelines)) == (4, 3)
    LIBRARY.Client._transport_for_url = ORIGINALS[-2]


def test_a_patch_under_ours_is_put_back(meter, timelines, server):
    other = Other()
    other.patch()
    phasemeter.instrument(meter=meter)
    run_sync(LIBRARY, server)
    phasemeter.uninstrument()
    assert LIBRARY.Client._transport_for_url is other.mine
    other.unpatch()

    assert (other.seen, len(timelines)) == (1, 1)


def test_a_patch_that_goes_with_ours_under_it_takes_nothing_along(meter, timelines, server):
    """The other one's undoing puts back what it found: ours, on or off."""
    other = Other()
    phasemeter.instrument(meter=meter)
    other.patch()
    other.unpatch()
    run_sync(LIBRARY, server)

    assert len(timelines) == 1


def test_many_threads_turn_it_on_and_off_under_traffic(meter, timelines, server):
    """No request fails, no patch is left."""
    faults = []

    def toggle():
        for _ in range(200):
            phasemeter.instrument(meter=meter)
            phasemeter.uninstrument()

    def use():
        try:
            with LIBRARY.Client() as client:
                for _ in range(10):
                    post(client, server)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one) for one in (toggle, toggle, use, use)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    assert len(timelines) <= 20
    assert not any(isinstance(one, process_wide.ImportWatch) for one in sys.meta_path)


def test_nothing_of_a_client_is_kept(meter, server):
    """Neither the client nor its transport, nor a timing transport."""
    phasemeter.instrument(meter=meter)
    client = LIBRARY.Client()
    gone = [weakref.ref(client), weakref.ref(client._transport)]
    for _ in range(3):
        post(client, server)
    client.close()
    del client
    gc.collect()

    assert [one() for one in gone] == [None, None]
    kinds = (TimingTransport, AsyncTimingTransport)
    assert not [one for one in gc.get_objects() if issubclass(type(one), kinds)]


def test_a_version_without_the_method_is_one_line(meter, caplog):
    """The line says which class is not timed and what is to be done."""
    module = ModuleType("httpx2")
    module.Client = type("Client", (), {})
    phasemeter.instrument(meter=meter)
    for _ in range(2):
        process_wide._patch_family(module)

    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "httpx2.Client has no _transport_for_url in this version, so instrument() does not time it; "
        "phasemeter.wrap() does"
    )


def test_disabled_by_the_environment(meter, timelines, server, monkeypatch):
    """Nothing is patched or wrapped, and asking for a timeline is no error."""
    monkeypatch.setenv("PHASEMETER_DISABLED", "true")
    phasemeter.instrument(meter=meter)
    assert LIBRARY.Client._transport_for_url is ORIGINALS[-2]
    with LIBRARY.Client() as client:
        assert meter.wrap(client) is client
        response = post(client, server)

    assert phasemeter.timeline(response) is None
    assert timelines == []


def in_a_new_process(script):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_families_imported_later_are_covered_and_none_is_imported_for_it(server):
    """Their loaders are their own again, and so is the import system afterwards."""
    got = in_a_new_process(f"""
        import json, sys
        import phasemeter
        before = list(sys.meta_path)
        phasemeter.instrument()
        early = sorted({{"httpx", "httpx2", "openai", "anthropic"}} & set(sys.modules))
        import openai
        families = [__import__(name) for name in {list(FAMILIES)!r}]
        url = {server.url!r}
        for one in families:
            with one.Client() as client:
                client.post(url + "/chat/completions", json={BODY!r})
        with openai.OpenAI(base_url=url, api_key="k") as client:
            list(client.chat.completions.create(**{BODY!r}))
        phasemeter.uninstrument()
        print(json.dumps({{
            "early": early,
            "ok": [group["outcomes"] for group in phasemeter.snapshot()["groups"]],
            "loaders": [type(one.__spec__.loader).__name__ for one in families]
            + [type(one.__loader__).__name__ for one in families],
            "undone": sys.meta_path == before,
            "left": [one._transport_for_url.__module__ for one in [one.Client for one in families]],
        }}))
    """)

    assert got == {
        "early": [],
        "ok": [{"ok": len(FAMILIES) + 1}],
        "loaders": ["SourceFileLoader"] * 2 * len(FAMILIES),
        "undone": True,
        "left": [f"{name}._client" for name in FAMILIES],
    }


def test_imports_on_other_threads_do_not_block(server):
    """Families are imported while instrument() and uninstrument() run; it ends, and they work."""
    got = in_a_new_process(f"""
        import json, threading
        import phasemeter
        phasemeter.Meter()
        phasemeter.instrument()
        def use(name):
            family = __import__(name)
            with family.Client() as client:
                client.post({server.url!r} + "/chat/completions", json={BODY!r})
        def toggle():
            for _ in range(50):
                phasemeter.instrument()
        threads = [threading.Thread(target=use, args=(name,)) for name in {list(FAMILIES)!r}]
        threads += [threading.Thread(target=toggle) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(json.dumps([group["outcomes"] for group in phasemeter.snapshot()["groups"]]))
    """)

    assert got == [{"ok": len(FAMILIES)}]


@pytest.mark.skipif(not hasattr(LIBRARY, "alias_httpx"), reason="httpx2 with alias_httpx() needed")
def test_httpx2_in_the_place_of_httpx(server):
    """`httpx2.alias_httpx()` makes both names one module: it is patched once."""
    got = in_a_new_process(f"""
        import json
        import phasemeter
        phasemeter.instrument()
        import httpx2
        httpx2.alias_httpx()
        import httpx
        with httpx.Client() as client:
            client.post({server.url!r} + "/chat/completions", json={BODY!r})
        phasemeter.uninstrument()
        print(json.dumps([
            [group["outcomes"] for group in phasemeter.snapshot()["groups"]],
            type(httpx2.__loader__).__name__,
            httpx.Client._transport_for_url.__module__,
        ]))
    """)

    assert got == [[{"ok": 1}], "SourceFileLoader", "httpx2._client"]
