"""Settings and fixtures of all tests."""

import subprocess

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made and run says more about what else the machine does than about the code.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A folder with the key and certificate of `localhost`."""
    folder = tmp_path_factory.mktemp("tls")
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder
