"""What is found out about a server before a run; servers are real sockets that answer by rules."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.load.preflight import find_target, refuse_too_long, warm_up
from phasemeter.load.workload import RequestClass


class Server:
    """Answers by a function of (method, path, body, headers)."""

    def __init__(self, answer: Callable) -> None:
        self.asked: list[tuple[str, str, dict]] = []

        class Handler(BaseHTTPRequestHandler):
            def handle_any(handler) -> None:
                length = int(handler.headers.get("content-length", 0))
                body = json.loads(handler.rfile.read(length)) if length else {}
                self.asked.append((handler.command, handler.path, body))
                status, document = answer(handler.command, handler.path, body, handler.headers)
                content = json.dumps(document).encode()
                handler.send_response(status)
                handler.send_header("content-length", str(len(content)))
                if status == 302:
                    handler.send_header("location", "http://elsewhere/v1")
                handler.end_headers()
                handler.wfile.write(content)

            do_GET = do_POST = handle_any

            def log_message(handler, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *exception):
        self._server.shutdown()
        self._server.server_close()


def models(*names):
    return {"data": [{"id": name} for name in names]}


def completion(prompt):
    """Token ids count one each; a text counts 7 tokens of template and 2 a word."""
    if isinstance(prompt, list) and isinstance(prompt[0], int):
        tokens = len(prompt)
    else:
        text = prompt if isinstance(prompt, str) else prompt[0]["content"]
        tokens = 7 + 2 * len(text.split())
    return {"choices": [], "usage": {"prompt_tokens": tokens}}


def vllm_like(method, path, body, headers):
    if path == "/v1/models":
        return 200, models("m")
    return 200, completion(body.get("prompt") or body.get("messages"))


def find(url, **options):
    wanted = {"topology": "single", "model": None, "api": None, "headers": {}} | options
    return find_target([url], **wanted)


def test_a_server_that_takes_token_ids_is_asked_with_them():
    with Server(vllm_like) as server:
        style = find(server.url).style

    assert (style.api, style.model) == ("completions", "m")
    assert style.prompt_ids
    assert style.extensions


def test_text_prompts_are_sized_by_what_the_server_counts():
    with Server(vllm_like) as server:
        style = find(server.url, api="chat").style

    # 7 + 2 x 47 = 101, 7 + 2 x 46 = 99: the nearest to 100 either way
    assert not style.prompt_ids
    assert style.text_length.words_for(100) in (46, 47)
    assert style.text_length.tokens_per_word == pytest.approx(2)
    assert style.text_length.fixed_tokens == pytest.approx(7)


def test_a_url_that_names_the_api_decides_it():
    with Server(vllm_like) as server:
        style = find(server.url + "/chat/completions").style

    assert style.api == "chat"


def test_a_chat_only_server_is_asked_for_chat_and_without_extensions_it_refuses():
    """As OpenAI's own: no legacy completions for this model, unknown fields are errors."""

    def strict(method, path, body, headers):
        if path.endswith("/chat/completions") and "ignore_eos" not in body:
            return 200, completion(body["messages"])
        return 400, {"error": {"message": "Unrecognized request argument"}}

    with Server(strict) as server:
        style = find(server.url, model="m").style

    assert style.api == "chat"
    assert not style.extensions
    assert style.text_length is not None


@pytest.mark.parametrize(
    ("listed", "accepted"), [((), "any, the server lists none"), (("a", "b"), "accepted: a, b")]
)
def test_a_model_must_be_named_where_the_server_does_not_list_exactly_one(listed, accepted):
    with (
        Server(lambda *asked: (200, models(*listed))) as server,
        pytest.raises(UsageError, match=f"--model: .*{accepted}"),
    ):
        find(server.url)


def test_a_refusal_is_told_with_the_servers_own_words():
    def refuse(method, path, body, headers):
        return 404, {"error": {"message": "The model `x` does not exist."}}

    with (
        Server(refuse) as server,
        pytest.raises(UsageError, match="HTTP 404: The model `x` does not exist"),
    ):
        find(server.url, model="x")


def test_a_missing_key_is_told_at_once_and_headers_are_sent():
    def guarded(method, path, body, headers):
        if headers.get("authorization") != "Bearer k":
            return 401, {"error": {"message": "no key"}}
        return vllm_like(method, path, body, headers)

    with Server(guarded) as server:
        with pytest.raises(UsageError, match="HTTP 401: no key"):
            find(server.url, model="m")
        asked = len(server.asked)
        find(server.url, headers={"Authorization": "Bearer k"})

    assert asked == 1


def test_a_redirect_is_refused_and_names_the_place():
    with (
        Server(lambda *asked: (302, {})) as server,
        pytest.raises(UsageError, match="redirects to http://elsewhere/v1"),
    ):
        find(server.url)


def test_prefill_and_decode_instances_are_tried_with_a_hand_off():
    def prefill(method, path, body, headers):
        if method == "GET":
            return vllm_like(method, path, body, headers)
        assert body["kv_transfer_params"]["do_remote_decode"] is True
        return 200, {"kv_transfer_params": {"remote_block_ids": [1]}}

    with Server(prefill) as first, Server(vllm_like) as second:
        target = find(first.url, decode_urls=[second.url], topology="separated")
        warm_up(target, headers={})
        last = second.asked[-1][2]

    assert target.decode_endpoints[0].base_url == second.url
    assert last["kv_transfer_params"] == {"remote_block_ids": [1]}
    assert len(last["prompt"]) == 256


def test_sglangs_instances_are_asked_at_the_same_time():
    """Each answers only when the other has been asked the same."""
    rooms: list[int] = []
    both = threading.Barrier(2, timeout=30)

    def waits(method, path, body, headers):
        if method == "POST":
            rooms.append(body["bootstrap_room"])
            both.wait()
        return vllm_like(method, path, body, headers)

    with Server(waits) as first, Server(waits) as second:
        target = find(first.url, decode_urls=[second.url], topology="separated", handoff="sglang")
        warm_up(target, headers={})
        asked = [one.asked[-1][2] for one in (first, second)]

    assert target.style.prompt_ids
    assert asked[0] == asked[1]
    assert asked[0]["bootstrap_port"] == 8998
    assert len(set(rooms)) == len(rooms) / 2


def test_a_decode_instance_that_waits_for_a_refused_prompt_is_not_waited_for():
    """Its own time limit may be minutes."""
    released = threading.Event()

    def refuses(method, path, body, headers):
        if method == "GET":
            return vllm_like(method, path, body, headers)
        return 403, {"error": {"message": "not you"}}

    def waits(method, path, body, headers):
        if method == "POST":
            released.wait(60)
        return vllm_like(method, path, body, headers)

    with Server(refuses) as first, Server(waits) as second:
        try:
            with pytest.raises(UsageError, match="not you"):
                find(first.url, decode_urls=[second.url], topology="separated", handoff="sglang")
            assert not released.is_set()
        finally:
            released.set()


def test_a_prefill_instance_that_hands_nothing_over_is_none():
    with (
        Server(vllm_like) as first,
        Server(vllm_like) as second,
        pytest.raises(UsageError, match="is no prefill instance"),
    ):
        find(first.url, decode_urls=[second.url], topology="separated")


def test_every_replica_is_warmed_up():
    with Server(vllm_like) as first, Server(vllm_like) as second:
        target = find_target(
            [first.url, second.url],
            topology="replicated",
            model="m",
            api=None,
            headers={},
        )
        before = len(first.asked), len(second.asked)
        warm_up(target, headers={})

        assert (len(first.asked) - before[0], len(second.asked) - before[1]) == (1, 1)


def test_what_does_not_fit_the_server_is_refused_before_the_run():
    def limited(method, path, body, headers):
        if method == "GET":
            return 200, {"data": [{"id": "m", "max_model_len": 100}]}
        return vllm_like(method, path, body, headers)

    with Server(limited) as server:
        target = find(server.url)
        refuse_too_long(target, [RequestClass("short", 60, 40)], headers={})
        with pytest.raises(UsageError, match=r"long: a prompt of 61 .* takes 100 in all"):
            refuse_too_long(target, [RequestClass("long", 61, 40)], headers={})


def test_a_server_that_tells_no_limit_is_asked_for_anything():
    with Server(vllm_like) as server:
        refuse_too_long(find(server.url), [RequestClass("long", 10**6, 40)], headers={})


def test_a_class_without_an_instance_of_its_own_is_refused_before_the_run():
    with Server(vllm_like) as first, Server(vllm_like) as second:
        target = find_target(
            [first.url, second.url],
            topology="class-routed",
            model="m",
            api=None,
            headers={},
            routes={"short": (0,), "long": (1,)},
        )
        refuse_too_long(target, [RequestClass("short", 60, 40)], headers={})
        with pytest.raises(
            UsageError, match="no instance for class 'other'; accepted: short, long"
        ):
            refuse_too_long(target, [RequestClass("other", 61, 40)], headers={})
