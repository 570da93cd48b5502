"""The shape of a flavour: how one engine names the signals on its metrics page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from phasemeter.telemetry.signals import Signal

if TYPE_CHECKING:
    from phasemeter.telemetry.page import Page


@dataclass(frozen=True, slots=True)
class Source:
    """Samples whose sum over all other labels is a signal.

    Attributes:
        name: Name of the samples; a counter's with or without `_total`.
        labels: Labels that they must carry.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flavour:
    """How an engine names the signals; names move between releases, so each may have several.

    Attributes:
        name: Name in records.
        prefix: What the engine's own samples begin with.
        sources: Where to find each signal, the newest name first.
    """

    name: str
    prefix: str
    sources: Mapping[Signal, tuple[Source, ...]]

    def speaks(self, page: Page) -> bool:
        """Whether a page is this engine's."""
        return any(name.startswith(self.prefix) for name in page)

    def read(self, page: Page) -> dict[Signal, float]:
        """Return the signals that a page tells; those it does not are left out, never 0."""
        values: dict[Signal, float] = {}
        for signal, sources in self.sources.items():
            for source in sources:
                value = _sum(page, source)
                if value is not None:
                    values[signal] = value
                    break
        return values


def _sum(page: Page, source: Source) -> float | None:
    samples = page.get(source.name) or page.get(f"{source.name}_total") or ()
    wanted = source.labels.items()
    matching = [value for labels, value in samples if wanted <= labels.items()]
    return sum(matching) if matching else None
