"""A program that ends with a live stream on every surface: `python -m tests.clients.exiting PATH sync`."""

import asyncio
import sys
from pathlib import Path

import phasemeter
from phasemeter.testing import ScriptedServer
from tests.clients.surfaces import SURFACES

KEPT = []


def started(surface, meter, *, is_async):
    """A client that is timed under the surface's name, and its server."""
    server = ScriptedServer(surface.wire.cut(end="hang"))
    server.__enter__()
    client = surface.client(server.url, is_async=is_async)
    return client if surface.pulled or meter is None else meter.wrap(client), server


def run(meter):
    for surface in SURFACES.values():
        with phasemeter.tag(surface=surface.name):
            client, server = started(surface, meter, is_async=False)
            stream = surface.ask(client)
            stream = meter.time_stream(stream) if surface.pulled else stream
            next(stream)
            KEPT.append((client, server, stream))


async def arun(meter):
    for surface in SURFACES.values():
        with phasemeter.tag(surface=surface.name):
            client, server = started(surface, meter, is_async=True)
            stream = await surface.ask(client)
            stream = meter.time_stream(stream) if surface.pulled else stream
            await anext(stream)
            KEPT.append((client, server, stream))


if __name__ == "__main__":
    METER = phasemeter.Meter(sinks=[phasemeter.RecordSink(Path(sys.argv[1]))])
    if sys.argv[2] == "sync":
        run(METER)
    else:
        asyncio.run(arun(METER))
    raise SystemExit(3)
