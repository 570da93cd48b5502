"""LangChain's LangSmith."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class LangsmithSdk:
    """langsmith.wrappers.wrap_openai; its runs end where its uploader would take them over.

    Its uploader serialises and compresses runs on a thread of its own; that is left out, as the
    exporters' serialisation is for the other tools.
    """

    name = "langsmith"
    environment = "langsmith"
    baseline = "bare"
    package = "langsmith"
    note = "runs are dropped where its uploader takes them over, so serialisation is not counted"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType(
        {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_HIDE_INPUTS": "true",
            "LANGSMITH_HIDE_OUTPUTS": "true",
        }
    )

    def install(self, environment: Path) -> None:
        install(environment, "langsmith==0.15.1")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from langsmith import Client
        from langsmith.wrappers import wrap_openai

        class Dropping(Client):
            def create_run(self, *args: Any, **run: Any) -> None:
                telemetry.take_run(run)

            def update_run(self, run_id: Any, *args: Any, **run: Any) -> None:
                telemetry.take_run({"id": run_id, **run})

        uploader = Dropping(
            api_url="http://127.0.0.1:9", api_key="benchmark", auto_batch_tracing=False, info={}
        )
        return wrap_openai(client, tracing_extra={"client": uploader})
