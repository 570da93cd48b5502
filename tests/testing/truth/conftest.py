"""A raw HTTP client, so that the truth server is tested with nothing of the project between."""

import socket
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from phasemeter.testing.truth.launch import running_truth_server
from phasemeter.testing.truth.log import read_truth


def connect(url, receive_buffer_bytes=None):
    host, port = url.removeprefix("http://").split(":")
    client = socket.socket()
    client.settimeout(10)
    if receive_buffer_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    client.connect((host, int(port)))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


@pytest.fixture
def serving(tmp_path: Path):
    """Run a server with a pacing; `.url` while it runs, `.truth` (a list) afterwards."""

    @contextmanager
    def serve(pacing):
        path = tmp_path / "truth.jsonl"
        served = SimpleNamespace(truth=[])
        with running_truth_server(path, pacing) as url:
            served.url = url
            yield served
        served.truth = read_truth(path)

    return serve
