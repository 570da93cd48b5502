"""How connections to a target are made and stamped, as a run was told to."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import Literal

from phasemeter.core.errors import UsageError

StampChoice = Literal["auto", "kernel", "recv"]


@dataclass(frozen=True, slots=True)
class Connecting:
    """How connections are made.

    Attributes:
        stamps: Where arrival times come from: `kernel` receive stamps, the clock as the read returned
            (`recv`), or `auto`, the best that the system has.
        verify: The certificate of a TLS server must be trusted and be made out to its name. Which
            authorities are trusted follows from SSL_CERT_FILE and SSL_CERT_DIR, else the system.
    """

    stamps: StampChoice = "auto"
    verify: bool = True

    def tls_context(self) -> ssl.SSLContext:
        """Return a context for TLS clients.

        Raises:
            UsageError: If SSL_CERT_FILE or SSL_CERT_DIR name nothing that is there. OpenSSL would
                trust nobody then, and say only that it does not trust this server.
        """
        for variable, is_there in (
            ("SSL_CERT_FILE", os.path.isfile),
            ("SSL_CERT_DIR", os.path.isdir),
        ):
            path = os.environ.get(variable)
            if self.verify and path and not is_there(path):
                msg = f"{variable}: {path} is not there; accepted: certificates in PEM form"
                raise UsageError(msg)
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


AUTOMATIC = Connecting()
