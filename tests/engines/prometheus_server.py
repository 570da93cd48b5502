"""A real Prometheus that scrapes what it is told, and questions in its own language."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.engines.environments import Environment
from tests.engines.servers import free_port, get, serving


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server.

    Attributes:
        url: Its root.
        promtool: The program that checks expositions.
    """

    url: str
    promtool: Path

    def ask(self, query: str) -> list[Series]:
        """Return the series of an instant query."""
        answer = json.loads(get(f"{self.url}/api/v1/query?{urlencode({'query': query})}"))
        assert answer["status"] == "success", answer
        assert answer["data"]["resultType"] == "vector"
        return [Series(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    def value(self, query: str) -> float | None:
        """Return the value of a query that gives one series; None where it gives none."""
        found = self.ask(query)
        assert len(found) <= 1, found
        return found[0].value if found else None

    def checked(self, exposition: bytes) -> subprocess.CompletedProcess[str]:
        """Have promtool read a page: status 0 where it is right, 3 where only its style is not."""
        return subprocess.run(
            [self.promtool, "check", "metrics"],
            input=exposition.decode(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@contextmanager
def running_prometheus(
    environment: Environment, folder: Path, targets: Mapping[str, str]
) -> Iterator[Prometheus]:
    """Scrape the targets (job name to host:port) every second until the block ends."""
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [target]}]}
        for job, target in targets.items()
    ]
    settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(settings))  # JSON is YAML
    at = f"127.0.0.1:{free_port()}"
    command = [
        environment.program("prometheus"),
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={at}",
    ]
    with serving(command, f"http://{at}/-/ready", folder / "prometheus.log"):
        yield Prometheus(f"http://{at}", environment.program("promtool"))
