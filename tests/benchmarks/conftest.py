"""A raw HTTP client, so that the truth server is tested with nothing of the project between."""

import socket
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.bench_run import truth_server
from benchmarks.truth.log import read_truth


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=10)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


@pytest.fixture
def serving(tmp_path: Path):
    """Run a server with a pacing; `.url` while it runs, `.truth` (a list) afterwards."""

    @contextmanager
    def serve(pacing):
        path = tmp_path / "truth.jsonl"
        served = SimpleNamespace(truth=[])
        with truth_server(path, pacing, None) as url:
            served.url = url
            yield served
        served.truth = read_truth(path)

    return serve
