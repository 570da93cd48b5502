"""A real trace store, Arize Phoenix: takes OTLP over HTTP, gives spans back over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.engines.environments import Environment
from tests.engines.servers import free_port, get, serving


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """One span as the store tells it."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    status: str
    start: datetime
    end: datetime
    attributes: dict[str, object]

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True, slots=True)
class Phoenix:
    """A running server.

    Attributes:
        url: Its root.
        folder: Where it keeps everything.
    """

    url: str
    folder: Path

    def spans(self) -> list[StoredSpan]:
        """Return all spans of the default project."""
        answer = json.loads(get(f"{self.url}/v1/projects/default/spans?limit=1000"))
        assert answer["next_cursor"] is None
        return [
            StoredSpan(
                trace_id=one["context"]["trace_id"],
                span_id=one["context"]["span_id"],
                parent_id=one["parent_id"],
                name=one["name"],
                status=one["status_code"],
                start=datetime.fromisoformat(one["start_time"]),
                end=datetime.fromisoformat(one["end_time"]),
                attributes=one["attributes"],
            )
            for one in answer["data"]
        ]


@contextmanager
def running_phoenix(environment: Environment, folder: Path) -> Iterator[Phoenix]:
    """Run it with its data in a folder until the block ends."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    data = folder / "data"
    data.mkdir()
    variables = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(data),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }
    command = [environment.program("phoenix"), "serve"]
    log = folder / "phoenix.log"
    with serving(command, f"{url}/healthz", log, variables=variables):
        yield Phoenix(url, data)
