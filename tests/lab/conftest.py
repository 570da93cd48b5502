"""Tools shared by the lab engine's tests: requests for engine objects, a small HTTP client."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import pytest

from phasemeter.lab.config import EngineConfig
from phasemeter.lab.engine import Engine
from phasemeter.lab.launch import start_engines
from phasemeter.lab.request import Request, Sampling

TINY = {"model_size": "tiny", "max_model_len": 512, "max_num_seqs": 4}


class FakeClock:
    """Each reading is one nanosecond after the last."""

    def __init__(self):
        self.now_ns = 0

    def __call__(self):
        self.now_ns += 1
        return self.now_ns


class Driver:
    """One engine object, driven by hand."""

    def __init__(self, **settings):
        self.clock = FakeClock()
        self.engine = Engine(EngineConfig(**(TINY | settings)), self.clock)

    def submit(self, prompt, *, max_tokens=3, **fields):
        """Queue a greedy request; its outputs gather in the list returned with it."""
        outputs = []
        sampling = Sampling(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        ids = np.arange(prompt) * 7 % 256 if isinstance(prompt, int) else np.array(prompt)
        request = Request(
            request_id="r",
            prompt=ids.astype(np.int32),
            sampling=sampling,
            deliver=outputs.append,
            received_ns=self.clock(),
            **fields,
        )
        self.engine.submit(request)
        return request, outputs

    def steps(self):
        """Step until nothing is left; return (prefill tokens, decode tokens) of each step."""
        done = []
        while self.engine.has_work:
            truth = self.engine.step()
            done.append((truth.prefill_tokens, truth.decode_tokens))
        return done


@pytest.fixture
def make_driver():
    drivers = []

    def make(**settings):
        drivers.append(Driver(**settings))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.engine.close()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def events(self):
        """Data of the server-sent events, `[DONE]` left as text."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == ""
        texts = [block.removeprefix("data: ") for block in blocks]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]


class Http:
    """Plain requests to an engine process."""

    @contextmanager
    def open(self, engine, method, path, body=None, headers=None):
        at = urlsplit(engine.url)
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            yield connection
        finally:
            connection.close()

    def __call__(self, engine, method, path, body=None, headers=None):
        with self.open(engine, method, path, body, headers) as connection:
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())

    def complete(self, engine, **fields):
        return self(engine, "POST", "/v1/completions", {"model": "lab", "prompt": "hi"} | fields)

    def chat(self, engine, **fields):
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "lab", "messages": messages} | fields
        return self(engine, "POST", "/v1/chat/completions", body)

    def truth_of(self, engine, request_id):
        lines = self(engine, "GET", "/truth").lines
        return next((line for line in lines if line["request_id"] == request_id), None)


@pytest.fixture(scope="session")
def http_call():
    return Http()


@pytest.fixture(scope="session")
def served():
    """A running engine of role `both`."""
    with start_engines([EngineConfig(**TINY)]) as (engine,):
        yield engine


@pytest.fixture(scope="session")
def pair():
    """A running prefill and a running decode engine."""
    roles = ("prefill", "decode")
    with start_engines([EngineConfig(**TINY, role=role, lease_s=1.0) for role in roles]) as both:
        yield both


@pytest.fixture(scope="session")
def eventually():
    """Return the first true value of a function, asked until a generous limit."""

    def wait(ask, limit_s=20.0):
        deadline = time.monotonic() + limit_s
        while not (value := ask()):
            assert time.monotonic() < deadline, "did not come true"
            time.sleep(0.005)
        return value

    return wait
