"""Our own faults must show in our own tests; the kernel stamps while they run."""

import socket
import ssl

import httpcore
import httpcore2
import pytest

from phasemeter.transports.arrivals import hold_stamping


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("PHASEMETER_STRICT", "1")


@pytest.fixture(scope="session", autouse=True)
def _stamping():
    held = hold_stamping()
    yield
    if held is not None:
        held.close()


@pytest.fixture(scope="session")
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


@pytest.fixture(scope="session")
def client_tls(certificate):
    return ssl.create_default_context(cafile=str(certificate / "cert.pem"))


@pytest.fixture(params=[httpcore, httpcore2], ids=["httpcore", "httpcore2"])
def library(request):
    return request.param


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener
