import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest


def test_health_and_models(http_call, served):
    """What a load tester asks first."""
    assert http_call(served, "GET", "/health").status == 200
    models = http_call(served, "GET", "/v1/models").json
    assert [(m["id"], m["max_model_len"]) for m in models["data"]] == [("lab", 512)]


def test_completion_stream_has_one_event_a_token(http_call, served):
    """Five tokens, five events with text, the finish reason on the last, then [DONE]."""
    answer = http_call.complete(served, max_tokens=5, ignore_eos=True, stream=True)

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["transfer-encoding"] == "chunked"
    *events, done = answer.events
    choices = [event["choices"][0] for event in events]
    assert done == "[DONE]"
    assert len(choices) == 5
    assert all(choice["text"] for choice in choices)
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["length"]
    assert all("usage" not in event for event in events)


def test_chat_stream_opens_with_the_role(http_call, served):
    """A role event without text, then the tokens; the usage event has no choice."""
    answer = http_call.chat(
        served, max_tokens=3, ignore_eos=True, stream=True, stream_options={"include_usage": True}
    )

    role, *tokens, usage, done = answer.events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert role["object"] == "chat.completion.chunk"
    assert [len(event["choices"][0]["delta"]["content"]) > 0 for event in tokens] == [True] * 3
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert done == "[DONE]"


def test_continuous_usage_counts_up(http_call, served):
    """Every event says how many tokens there are so far."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = http_call.complete(
        served, max_tokens=4, ignore_eos=True, stream=True, stream_options=options
    )

    counts = [event["usage"]["completion_tokens"] for event in answer.events[:-1]]
    assert counts == [1, 2, 3, 4, 4]


def test_token_ids_are_returned_on_request(http_call, served):
    """Prompt ids once, and one output id an event."""
    answer = http_call.complete(
        served, prompt=[1, 2, 3], max_tokens=3, ignore_eos=True, stream=True, return_token_ids=True
    )

    choices = [event["choices"][0] for event in answer.events[:-1]]
    assert choices[0]["prompt_token_ids"] == [1, 2, 3]
    assert [len(choice["token_ids"]) for choice in choices] == [1, 1, 1]
    assert all("prompt_token_ids" not in choice for choice in choices[1:])


def test_streamed_and_whole_answers_agree(http_call, served):
    """Same seed, same text."""
    fields = {"max_tokens": 6, "seed": 4, "ignore_eos": True}
    whole = http_call.complete(served, **fields).json
    streamed = http_call.complete(served, stream=True, **fields).events[:-1]

    text = "".join(event["choices"][0]["text"] for event in streamed)
    assert whole["choices"][0]["text"] == text
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + 6


def test_a_whole_chat_answer(http_call, served):
    """The message of the assistant, and the counts."""
    answer = http_call.chat(served, max_tokens=2, temperature=0, ignore_eos=True).json

    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["finish_reason"] == "length"


def test_timing_metrics_agree_with_the_truth(http_call, served):
    """Time to first token counts from the schedule, as vLLM's does, and the queue comes apart."""
    answer = http_call.complete(served, max_tokens=5, ignore_eos=True, user="u")
    truth = http_call.truth_of(served, answer.headers["x-request-id"])
    metrics = answer.json["metrics"]

    first_ms = (truth["first_token_ns"] - truth["scheduled_ns"]) / 1e6
    assert metrics["time_to_first_token_ms"] == pytest.approx(first_ms)
    queue_ms = (truth["scheduled_ns"] - truth["received_ns"]) / 1e6
    assert metrics["queue_time_ms"] == pytest.approx(queue_ms)
    assert metrics["mean_itl_ms"] * 4 == pytest.approx(metrics["generation_time_ms"])


def test_emit_stamps_precede_what_the_client_sees(http_call, served):
    """One stamp a token, rising, on this machine's monotonic clock, before the client's read."""
    body = {"model": "lab", "prompt": "x", "max_tokens": 8, "ignore_eos": True, "stream": True}
    headers = {"x-request-id": "emit-order"}
    seen_ns = []
    sent_ns = time.monotonic_ns()
    with http_call.open(served, "POST", "/v1/completions", body, headers) as connection:
        response = connection.getresponse()
        assert response.getheader("x-request-id") == "emit-order"
        while line := response.readline():
            if b"finish_reason" in line:
                seen_ns.append(time.monotonic_ns())
    truth = http_call.truth_of(served, "emit-order")

    emit_ns = truth["emit_ns"]
    assert len(emit_ns) == len(seen_ns) == truth["output_tokens"] == 8
    assert emit_ns == sorted(set(emit_ns))
    assert sent_ns < truth["received_ns"] < truth["scheduled_ns"] < truth["first_token_ns"]
    assert truth["first_token_ns"] < emit_ns[0]
    assert all(emit < seen for emit, seen in zip(emit_ns, seen_ns, strict=True))
    assert truth["outcome"] == "ok"


def test_a_connection_is_kept_for_the_next_request(http_call, served):
    """Two streams over one socket."""
    body = {"model": "lab", "prompt": "x", "max_tokens": 2, "stream": True}
    with http_call.open(served, "POST", "/v1/completions", body) as connection:
        connection.getresponse().read()
        port = connection.sock.getsockname()[1]
        connection.request("POST", "/v1/completions", json.dumps(body))
        assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
        assert connection.sock.getsockname()[1] == port


def test_many_streams_at_once_all_end(http_call, served):
    """More requests than slots: each gets all its tokens."""

    def stream(index):
        return http_call.complete(
            served, prompt=[index] * (10 + 9 * index), max_tokens=9, ignore_eos=True, stream=True
        )

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(stream, range(12)))

    assert [len(answer.events) for answer in answers] == [10] * 12


def test_a_client_that_leaves_frees_its_slot(http_call, served, eventually):
    """The request ends as cancelled, long before its 400 tokens, and nothing runs on."""
    body = {"model": "lab", "prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True}
    headers = {"x-request-id": "leaver"}
    with http_call.open(served, "POST", "/v1/completions", body, headers) as connection:
        response = connection.getresponse()
        response.readline()
        connection.sock.shutdown(socket.SHUT_RDWR)

    truth = eventually(lambda: http_call.truth_of(served, "leaver"))
    page = http_call(served, "GET", "/metrics").body.decode()

    assert truth["outcome"] == "cancelled"
    assert 0 < truth["output_tokens"] < 400
    assert re.search(r"^phasemeter_lab_slots_used\{.*\} 0.0$", page, re.M)


def test_errors_are_shaped_like_openais(http_call, served):
    """Status, and an error object with message, type, param and code."""
    wrong_model = http_call.complete(served, model="gpt")
    assert wrong_model.status == 404
    assert wrong_model.json["error"]["code"] == "model_not_found"
    bad_json = http_call(served, "POST", "/v1/completions", b"{")
    assert bad_json.status == 400
    assert set(bad_json.json["error"]) == {"message", "type", "param", "code"}
    assert http_call(served, "GET", "/nowhere").status == 404
    assert http_call(served, "GET", "/v1/completions").status == 405
    too_long = http_call.complete(served, prompt=[1] * 600)
    assert (too_long.status, too_long.json["error"]["param"]) == (400, "max_tokens")


def test_the_metrics_page_has_vllms_names(http_call, served):
    """A request moves the counters and every histogram."""
    http_call.complete(served, prompt=[1, 2, 3], max_tokens=4, ignore_eos=True)
    page = http_call(served, "GET", "/metrics").body.decode()
    values = dict(re.findall(r"^([\w:]+)\{[^}]*model_name[^}]*\} (\S+)$", page, re.M))

    assert float(values["vllm:prompt_tokens_total"]) >= 3
    assert float(values["vllm:generation_tokens_total"]) >= 4
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
        assert float(values[name]) == 0
    assert 0 <= float(values["vllm:kv_cache_usage_perc"]) <= 1
    for name in (
        "time_to_first_token_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "e2e_request_latency_seconds",
        "inter_token_latency_seconds",
    ):
        assert float(values[f"vllm:{name}_count"]) > 0
        assert float(values[f"vllm:{name}_sum"]) > 0


def test_steps_tell_what_was_computed(http_call, served):
    """A prompt of 77 tokens is one step's prefill, unless it shared the step."""
    http_call.complete(served, prompt=[1] * 77, max_tokens=3, ignore_eos=True)
    steps = http_call(served, "GET", "/steps").lines

    assert steps[-3]["prefill_tokens"] == 77
    assert [step["decode_tokens"] for step in steps[-2:]] == [1, 1]
    assert all(step["start_ns"] < step["end_ns"] for step in steps)


def hand_off(http_call, pair, **fields):
    """Drive both legs as a client does; return the prefill answer and the decode answer."""
    prefill, decode = pair
    ask = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None}
    leg = http_call.complete(prefill, **fields, max_tokens=1, kv_transfer_params=ask)
    params = leg.json["kv_transfer_params"]
    return leg, http_call.complete(decode, **fields, max_tokens=6, kv_transfer_params=params)


def test_two_processes_hand_a_prompt_over(http_call, served, pair):
    """Prefill in one process, decode in another: the text of one process alone."""
    fields = {"prompt": [7] * 333, "temperature": 0, "ignore_eos": True}
    expected = http_call.complete(served, **fields, max_tokens=6).json["choices"][0]["text"]

    leg, answer = hand_off(http_call, pair, **fields)

    assert answer.json["choices"][0]["text"] == expected
    assert leg.json["kv_transfer_params"]["do_remote_prefill"] is True
    truth = http_call.truth_of(pair[1], answer.headers["x-request-id"])
    assert truth["scheduled_ns"] <= truth["kv_pulled_ns"] < truth["first_token_ns"]
    assert (truth["role"], truth["prefill_steps"][0][2]) == ("decode", 1)


def test_a_pull_that_fails_is_an_error_before_the_stream(http_call, pair, eventually):
    """After the lease the decode instance answers 500 and no event; nothing is recomputed."""
    prefill, decode = pair
    ask = {"do_remote_decode": True, "do_remote_prefill": False}
    leg = http_call.complete(prefill, max_tokens=1, kv_transfer_params=ask)

    def is_expired():
        page = http_call(prefill, "GET", "/metrics").body.decode()
        return re.search(r"^phasemeter_lab_handoffs_expired\{.*\} [1-9]", page, re.M)

    eventually(is_expired)
    params = leg.json["kv_transfer_params"]
    answer = http_call.complete(decode, stream=True, kv_transfer_params=params)

    assert answer.status == 500
    assert answer.json["error"]["code"] == "kv_pull_failed"
    truth = http_call.truth_of(decode, answer.headers["x-request-id"])
    assert (truth["outcome"], truth["output_tokens"]) == ("error", 0)


def test_roles_refuse_what_they_do_not_serve(http_call, pair):
    """Whole requests to half an engine are told what is accepted."""
    for engine, wanted in zip(pair, ("do_remote_decode", "do_remote_prefill"), strict=True):
        answer = http_call.complete(engine)
        assert answer.status == 400
        assert wanted in answer.json["error"]["message"]
