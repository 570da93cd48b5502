"""The options that say which systems are measured, and the targets that they make."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from phasemeter.core.errors import UsageError

if TYPE_CHECKING:
    from phasemeter.load.connecting import Connecting
    from phasemeter.load.handoff import Handoff
    from phasemeter.load.target import Api, Target, Topology

SEPARATED_FORM = "prefill=URL,decode=URL (each may come several times)"
ROUTED_FORM = "CLASS=URL,CLASS=URL (each may come several times)"
_GPUS_FORM = "TOPOLOGY=N[,TOPOLOGY=N], for instance mixed=1,separated=2"
_NAMED_URL = re.compile(r"(?P<name>[\w-]+)=(?P<url>.+)")

SEPARATED_OPTION = click.option(
    "--separated",
    metavar="prefill=URL,decode=URL",
    help="Prefill and decode instances; the client carries the hand-off.",
)
CLASS_ROUTED_OPTION = click.option(
    "--class-routed",
    metavar="CLASS=URL,CLASS=URL",
    help="An instance for each request class, for instance short=URL,long=URL.",
)
HANDOFF_OPTION = click.option(
    "--handoff",
    type=click.Choice(["vllm", "sglang"]),
    default="vllm",
    show_default=True,
    help="Protocol of the separated legs: one after the other with what the prefill instance hands "
    "over, or both at once with SGLang's bootstrap.",
)
BOOTSTRAP_OPTION = click.option(
    "--bootstrap-ports",
    metavar="PORT[,PORT]",
    help="SGLang's bootstrap port of each prefill instance; 8998 by default.",
)


@dataclass(frozen=True, slots=True)
class Topologies:
    """The systems that were asked for.

    Attributes:
        mixed: URLs of mixed instances, used in turn.
        class_routed: `CLASS=URL,...`, or None.
        separated: `prefill=URL,decode=URL,...`, or None.
        handoff: Whose protocol the separated legs speak.
        bootstrap_ports: SGLang's bootstrap ports, or None.
        proxied: URL of a proxy in front of a system of its own, or None.
        proxied_gpus: How many GPUs are behind the proxy, or None.
        model: Model to ask for, or None for the only one there is.
        gpus_per_instance: GPUs of one instance.
        gpus: `TOPOLOGY=N,...` where a topology has another number, or None.
        per_gpu: Accept unequal GPU counts, throughput being compared per GPU.
    """

    mixed: tuple[str, ...] = ()
    class_routed: str | None = None
    separated: str | None = None
    handoff: Handoff = "vllm"
    bootstrap_ports: str | None = None
    proxied: str | None = None
    proxied_gpus: int | None = None
    model: str | None = None
    gpus_per_instance: int = 1
    gpus: str | None = None
    per_gpu: bool = False

    @property
    def any(self) -> bool:
        """True where a URL was given."""
        return bool(self.mixed or self.class_routed or self.separated or self.proxied)


def topology_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of `Topologies`, which it gets as `topologies`."""

    @functools.wraps(command)
    def with_topologies(
        *,
        mixed: tuple[str, ...],
        class_routed: str | None,
        separated: str | None,
        handoff: Handoff,
        bootstrap_ports: str | None,
        proxied: str | None,
        proxied_gpus: int | None,
        model: str | None,
        gpus_per_instance: int,
        gpus: str | None,
        per_gpu: bool,
        **rest: object,
    ) -> int:
        topologies = Topologies(
            mixed,
            class_routed,
            separated,
            handoff,
            bootstrap_ports,
            proxied,
            proxied_gpus,
            model,
            gpus_per_instance,
            gpus,
            per_gpu,
        )
        return command(topologies=topologies, **rest)

    options = (
        click.option(
            "--mixed",
            multiple=True,
            metavar="URL",
            help="A mixed instance; several are used in turn.",
        ),
        CLASS_ROUTED_OPTION,
        SEPARATED_OPTION,
        HANDOFF_OPTION,
        BOOTSTRAP_OPTION,
        click.option(
            "--proxied", metavar="URL", help="A proxy in front of a system that does the rest."
        ),
        click.option(
            "--proxied-gpus",
            type=click.IntRange(min=1),
            help="GPUs of the system behind the proxy.",
        ),
        click.option("--model", help="Model to ask for; by default the only one the server lists."),
        click.option(
            "--gpus-per-instance", type=click.IntRange(min=1), default=1, show_default=True
        ),
        click.option(
            "--gpus",
            metavar="TOPOLOGY=N,...",
            help="GPUs of a topology, where it is not instances times --gpus-per-instance.",
        ),
        click.option(
            "--per-gpu",
            is_flag=True,
            help="Compare topologies with unequal GPU counts: throughput per GPU, latency as it is.",
        ),
    )
    wrapped: Callable[..., int] = with_topologies
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@dataclass(frozen=True, slots=True)
class OneTopology:
    """One topology as it was asked for.

    Attributes:
        topology: How requests are spread.
        urls: Its instances; those that prefill when separated.
        decode_urls: Those that decode when separated.
        routes: Numbers of the instances of each request class when class-routed.
        bootstrap_ports: SGLang's bootstrap ports of the instances that prefill.
        gpus: GPUs where they were told for this topology, else None.
    """

    topology: Topology
    urls: Sequence[str]
    decode_urls: Sequence[str] = ()
    routes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bootstrap_ports: Sequence[int] = ()
    gpus: int | None = None

    def find(
        self,
        topologies: Topologies,
        headers: Mapping[str, str],
        *,
        gpus: int | None,
        api: Api | None = None,
        connecting: Connecting | None = None,
    ) -> Target:
        """Try the instances and return the target.

        Args:
            topologies: What else was asked for: model and hand-off.
            headers: Extra request headers.
            gpus: GPUs of the whole, or None.
            api: Chat or completions, None for what the server takes.
            connecting: How connections are made, None for the usual way.

        Raises:
            UsageError: If an instance does not do.
        """
        from phasemeter.load.connecting import AUTOMATIC
        from phasemeter.load.preflight import find_target

        return find_target(
            self.urls,
            decode_urls=self.decode_urls,
            topology=self.topology,
            model=topologies.model,
            api=api,
            headers=headers,
            gpus=gpus,
            connecting=connecting or AUTOMATIC,
            routes=self.routes,
            handoff=topologies.handoff,
            bootstrap_ports=self.bootstrap_ports,
        )


def find_targets(
    topologies: Topologies, classes: tuple[str, str], headers: Mapping[str, str]
) -> dict[str, Target]:
    """Try the instances and return the target of each topology, warmed up.

    Args:
        topologies: What was asked for.
        classes: The two classes of the mix, the short one first.
        headers: Extra request headers.

    Raises:
        UsageError: If an option is malformed, an instance does not do, or the topologies have unequal
            GPU counts and nobody accepted that.
    """
    from phasemeter.load.preflight import warm_up

    wanted = _wanted(topologies, classes)
    counts = _gpu_counts(topologies, wanted)
    _refuse_unequal(counts, per_gpu=topologies.per_gpu)
    targets = {
        name: one.find(topologies, headers, gpus=counts[name]) for name, one in wanted.items()
    }
    for target in targets.values():
        warm_up(target, headers=headers)
    return targets


def the_one_topology(topologies: Topologies) -> OneTopology:
    """Return the topology of a load run, which measures one.

    Raises:
        UsageError: If none or several are given, or an option is malformed.
    """
    wanted = list(_wanted(topologies, None).values())
    if len(wanted) != 1:
        msg = (
            "URL, --separated, --class-routed: exactly one is needed; accepted: one or more URLs, "
            f"or {SEPARATED_FORM}, or {ROUTED_FORM}"
        )
        raise UsageError(msg)
    return wanted[0]


def _wanted(topologies: Topologies, classes: tuple[str, str] | None) -> dict[str, OneTopology]:
    found: dict[str, OneTopology] = {}
    if topologies.mixed:
        topology: Topology = "single" if len(topologies.mixed) == 1 else "replicated"
        found["mixed"] = OneTopology(topology, topologies.mixed)
    if topologies.class_routed is not None:
        found["class-routed"] = _routed(topologies.class_routed, classes)
    if topologies.separated is not None:
        found["separated"] = _separated(topologies)
    if topologies.proxied is not None:
        if topologies.proxied_gpus is None:
            msg = "--proxied-gpus: is needed with --proxied; accepted: the GPUs behind the proxy"
            raise UsageError(msg)
        found["proxied"] = OneTopology(
            "proxied", [topologies.proxied], gpus=topologies.proxied_gpus
        )
    return found


def _named_urls(text: str, option: str, form: str) -> list[tuple[str, str]]:
    named = []
    for item in text.split(","):
        match = _NAMED_URL.fullmatch(item.strip())
        if match is None:
            msg = f"{option}: {item.strip()!r} is no instance; accepted: {form}"
            raise UsageError(msg)
        named.append((match["name"], match["url"]))
    return named


def _separated(topologies: Topologies) -> OneTopology:
    text = topologies.separated or ""
    urls: dict[str, list[str]] = {"prefill": [], "decode": []}
    for role, url in _named_urls(text, "--separated", SEPARATED_FORM):
        if role not in urls:
            msg = f"--separated: '{role}={url}' is no instance; accepted: {SEPARATED_FORM}"
            raise UsageError(msg)
        urls[role].append(url)
    prefill, decode = urls["prefill"], urls["decode"]
    if not prefill or not decode:
        msg = f"--separated: {text!r} lacks an instance; accepted: {SEPARATED_FORM}"
        raise UsageError(msg)
    ports = _ports(topologies.bootstrap_ports, len(prefill))
    if ports and topologies.handoff != "sglang":
        msg = "--bootstrap-ports: only SGLang's hand-off has them; accepted: with --handoff sglang"
        raise UsageError(msg)
    return OneTopology("separated", prefill, decode, bootstrap_ports=ports)


def _routed(text: str, classes: tuple[str, str] | None) -> OneTopology:
    """Return class-routed instances; a URL that comes for several classes is one instance.

    Of the inject condition the background streams go where the short class goes, and the injected
    prompts with the long class, unless they are named.
    """
    named = _named_urls(text, "--class-routed", ROUTED_FORM)
    urls = list(dict.fromkeys(url for _, url in named))
    routes: dict[str, tuple[int, ...]] = {}
    for name, url in named:
        routes[name] = (*routes.get(name, ()), urls.index(url))
    if classes is not None:
        for stands_in, name in zip(("background", "injected"), classes, strict=True):
            if name not in routes:
                msg = f"--class-routed: {text!r} lacks class {name!r}; accepted: {ROUTED_FORM}"
                raise UsageError(msg)
            routes.setdefault(stands_in, routes[name])
    return OneTopology("class-routed", urls, routes=routes)


def _ports(text: str | None, instances: int) -> tuple[int, ...]:
    if text is None:
        return ()
    items = [item.strip() for item in text.split(",")]
    ports = tuple(int(item) for item in items if item.isdecimal() and 0 < int(item) < 65_536)
    if len(ports) < len(items) or len(ports) not in (1, instances):
        msg = (
            f"--bootstrap-ports: {text!r} for {instances} prefill instances; accepted: one port, or "
            "one for each, in the order of the instances"
        )
        raise UsageError(msg)
    return ports


def _gpu_counts(topologies: Topologies, wanted: Mapping[str, OneTopology]) -> dict[str, int]:
    counts = {
        name: one.gpus or topologies.gpus_per_instance * len([*one.urls, *one.decode_urls])
        for name, one in wanted.items()
    }
    for item in topologies.gpus.split(",") if topologies.gpus is not None else ():
        name, _, number = item.strip().partition("=")
        if name not in counts or not number.isdecimal() or not int(number):
            msg = f"--gpus: {item.strip()!r} is no count of {', '.join(counts)}; accepted: {_GPUS_FORM}"
            raise UsageError(msg)
        counts[name] = int(number)
    return counts


def _refuse_unequal(counts: Mapping[str, int], *, per_gpu: bool) -> None:
    if per_gpu or len(set(counts.values())) <= 1:
        return
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    msg = (
        f"--mixed, --class-routed, --separated, --proxied: unequal GPU counts ({told}); accepted: as "
        "many GPUs each, or --per-gpu to compare throughput per GPU (latency is not normalised)"
    )
    raise UsageError(msg)
