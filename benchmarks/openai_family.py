"""The HTTP library under the installed openai client: httpx2 from openai 3 on, httpx before."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

_is_new = int(version("openai").partition(".")[0]) >= 3
httpx: Any = import_module("httpx2" if _is_new else "httpx")
