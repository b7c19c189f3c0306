"""What a collective takes: from measured tables where the device or one like it was measured, else a law of the link.

The law is that of Hockney with a soft corner: t = (α^p + (f·S/(e·w))^p)^(1/p) with α = a0 + a1·(ranks − 1) and
e = e0·(2/ranks)^g; w: bytes/s of the link on paper, S: bytes that a rank holds before, f: the share of them that must
pass its link: 2(n−1)/n of an all-reduce, n−1 of an all-gather (S is its share), (n−1)/n of the others, 1 of a send.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from math import exp, log
from typing import Any, NamedTuple, cast

from narrows.calibration.collectives import CollectiveTable, collective_tables
from narrows.calibration.laws import Law, law
from narrows.hardware import Accelerator, accelerators
from narrows.roofline.link import Link, link_across, link_of, twins
from narrows.step import Collective

OWN = {"vllm": "custom", "sglang": "custom", "tensorrt-llm": "trtllm"}
"""Engine → the library of its own all-reduce; that of TensorRT-LLM was measured apart, SGLang brings vLLM's."""
CUSTOM_LIMIT = 8 * 2**20
"""Largest message of the all-reduce that vLLM and SGLang bring with them (max_size of CustomAllreduce, vLLM 0.4 on)."""
CUSTOM_RANKS = (2, 4, 6, 8)
"""Ranks that it supports; more than two must all reach each other by NVLink or Infinity Fabric."""


class NetworkTime(NamedTuple):
    """Seconds of one collective: time = network (bytes at the speed reached) + overhead (latency of an empty message).

    library: what an engine would use, the fastest of those that apply. measured: read from a table of this device.
    low, high: 80 % of the measured times lie between these multiples of `time`. assumed: nobody measured such a link.
    """

    time: Any
    network: Any
    overhead: Any
    library: str
    measured: bool
    low: float
    high: float
    assumed: bool = False


def host_decides(device: Accelerator, ranks: int) -> bool:
    """Whether the time depends on how a host wires its slots as much as on the device.

    More than two cards on PCIe talk through switches, or across processors without reaching each other: between two
    hosts of L40S it differs by 3 × at 4 ranks, 8 × at 8 (table of aiconfigurator; prompts of TensorRT-LLM's overview).
    Which host it is, nobody says, so that of the hosts whose links were measured, whatever their cards, the middle one
    is taken (`middle`), and the interval holds them all.
    """
    return ranks > 2 and link_of(device, ranks).kind == "PCIe"


def traffic(op: str, ranks: int) -> float:
    """Share of the bytes that one rank holds before which must pass its link at least."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op == "all_gather":
        return ranks - 1
    return 1.0 if op == "send" else (ranks - 1) / ranks


def law_time(message: Any, op: str, ranks: int, link: Link, values: dict[str, float]) -> Any:
    """Seconds by the law of the link; message: bytes, a number or an array."""
    alpha = values["a0"] + values["a1"] * (ranks - 1)
    moved = message * traffic(op, ranks) / (link.bandwidth * values["e0"] * (2 / ranks) ** values["g"])
    return (alpha ** values["p"] + moved ** values["p"]) ** (1 / values["p"])


class Curve:
    """Seconds by bytes, straight between the points in logarithms; constant below them, proportional above."""

    def __init__(self, sizes: tuple[int, ...], seconds: tuple[float, ...]) -> None:
        self.x = [log(size) for size in sizes]
        self.y = [log(second) for second in seconds]
        self.alpha = min(seconds)

    def __call__(self, message: Any) -> Any:
        """Seconds; message: bytes, a number or an array."""
        if hasattr(message, "__len__"):
            import numpy as np

            x = np.log(np.maximum(message, 1.0))
            return np.exp(np.interp(x, self.x, self.y) + np.maximum(x - self.x[-1], 0.0))
        x = log(max(message, 1))
        if x >= self.x[-1]:
            return exp(self.y[-1] + x - self.x[-1])
        if x <= self.x[0]:
            return exp(self.y[0])
        i = bisect_right(self.x, x)
        share = (x - self.x[i - 1]) / (self.x[i] - self.x[i - 1])
        return exp(self.y[i - 1] + share * (self.y[i] - self.y[i - 1]))


@cache
def _curves(device: Accelerator, op: str, library: str, nodes: int) -> tuple[str, dict[int, Curve]]:
    """Tables of the device or of one built into machines alike, by ranks; the id of the one measured."""
    tables = [t for t in collective_tables() if (t.op, t.library, t.nodes) == (op, library, nodes)]
    measured = {table.device for table in tables}
    for other in twins(device, tuple(d for d in accelerators() if d.id in measured)):
        return other.id, {t.ranks: curve_of(t) for t in tables if t.device == other.id}
    return "", {}


def curve_of(table: CollectiveTable) -> Curve:
    """The curve through a table, nowhere falling (`rising`)."""
    return Curve(table.bytes, rising(tuple(1e-6 * time for time in table.microseconds)))


def rising(seconds: tuple[float, ...]) -> tuple[float, ...]:
    """The nearest times that do not fall with size: least squares of their logarithms (pool adjacent violators).

    Measured tables dip where a library changes its algorithm too late, or by chance: on eight B200 1 MiB takes a third
    less than 512 KiB. A larger message is not said to be faster than a smaller one.
    """
    pools: list[tuple[float, int]] = []  # mean of the logarithms, how many
    for time in seconds:
        mean, count = log(time), 1
        while pools and pools[-1][0] > mean:
            before, more = pools.pop()
            mean, count = (mean * count + before * more) / (count + more), count + more
        pools.append((mean, count))
    return tuple(exp(mean) for mean, count in pools for _ in range(count))


@cache
def _law(op: str, library: str, kind: str) -> Law:
    return law("collectives", f"{op} {library}", (kind, "any"))


@cache
def _interval(own: bool) -> Law:
    return law("collectives", "table", ("any" if own else "twin",))


class Host(NamedTuple):
    """Cards on PCIe in a machine that was measured: ranks of the table nearest to what is asked, and its curve."""

    link: Link
    ranks: int
    curve: Curve

    def time(self, op: str, ranks: int, message: Any, link: Link) -> Any:
        """Seconds over a link of another speed: the share of it that these cards reach, the latency of a ring."""
        alpha = self.curve.alpha * (ranks - 1) / (self.ranks - 1)
        moved = (self.curve(message) - self.curve.alpha) * self.link.bandwidth / link.bandwidth
        return alpha + moved * traffic(op, ranks) / traffic(op, self.ranks)


@cache
def _hosts(op: str, library: str, ranks: int) -> tuple[Host, ...]:
    known = {device.id: device for device in accelerators()}
    best: dict[str, Host] = {}
    for table in collective_tables():
        if (table.op, table.library, table.nodes) != (op, library, 1) or not host_decides(known[table.device], ranks):
            continue
        nearest = best.get(table.device)
        if 2 < table.ranks <= ranks and (nearest is None or table.ranks > nearest.ranks):
            best[table.device] = Host(link_of(known[table.device], table.ranks), table.ranks, curve_of(table))
    return tuple(best.values())


def middle(op: str, library: str, ranks: int, message: Any, link: Link) -> NetworkTime | None:
    """The time in the middle of those in all measured hosts; of two in the middle their geometric mean.

    Its interval holds all hosts, and devices left out of the law of the link. None where no host was measured.
    message: bytes, a number or an array.
    """
    hosts = _hosts(op, library, ranks)
    if not hosts:
        return None
    one, other = (len(hosts) - 1) // 2, len(hosts) // 2
    alpha = sorted(host.time(op, ranks, 1, link) for host in hosts)
    among: Any = [host.time(op, ranks, message, link) for host in hosts]
    many = hasattr(message, "__len__")
    if many:
        import numpy as np

        among = np.sort(np.array(among), axis=0)
    else:
        among.sort()
    time, latency = ((times[one] * times[other]) ** 0.5 for times in (among, alpha))
    least, most = among[0] / time, among[-1] / time
    if many:
        least, most = float(least.min()), float(most.max())
    row = _law(op, library, "PCIe")
    return NetworkTime(time, time - latency, latency, library, False, min(row.low, least), max(row.high, most))


def _by(library: str, op: str, ranks: int, message: Any, device: Accelerator, link: Link) -> NetworkTime | None:
    """The time with one library: of the table, between two tables, or of the law; None where it does not exist."""
    if host_decides(device, ranks) and (common := middle(op, library, ranks, message, link)):
        return common
    found, curves = _curves(device, op, library, 2 if link.kind == "between nodes" else 1)
    span = [n for n in sorted(curves) if n <= ranks][-1:] + [n for n in sorted(curves) if n >= ranks][:1]
    if len(span) == 2:
        few, many = span
        time, alpha = curves[few](message), curves[few].alpha
        if few != many:
            share = log(ranks / few) / log(many / few)
            time = time ** (1 - share) * curves[many](message) ** share
            alpha = alpha ** (1 - share) * curves[many].alpha ** share
        wired = link.kind == "PCIe" and found != device.id
        row = _law(op, library, "PCIe") if wired else _interval(found == device.id)
        return NetworkTime(time, time - alpha, alpha, library, found == device.id, row.low, row.high)
    try:
        row = _law(op, library, link.kind)
    except KeyError:
        return None
    time = law_time(message, op, ranks, link, row.values)
    alpha = row.values["a0"] + row.values["a1"] * (ranks - 1)
    return NetworkTime(time, time - alpha, alpha, library, False, row.low, row.high, not row.n)


def libraries(engine: str, graphs: bool, op: str, ranks: int, link: Link) -> tuple[str, ...]:
    """Libraries that an engine has for an operation, its own first.

    Outside CUDA graphs its own waits for the host: 23 to 44 µs were measured, more than NCCL takes.
    """
    if op != "all_reduce" or not graphs or engine not in OWN or ranks not in CUSTOM_RANKS:
        return ("nccl",)
    if ranks > 2 and link.kind not in ("NVLink switch", "mesh"):
        return ("nccl",)
    return (OWN[engine], "nccl")


def collective_time(shape: Collective, device: Accelerator, engine: str = "vllm", graphs: bool = True) -> NetworkTime:
    """Seconds of one collective among accelerators of a kind; message: a number or an array. Raises BadInput.

    Of the libraries that apply the faster one is taken, message by message; its own all-reduce up to CUSTOM_LIMIT.
    """
    link = link_across(device, shape.ranks, shape.span)
    message = cast(Any, shape.message)
    best: NetworkTime | None = None
    for library in reversed(libraries(engine, graphs, shape.op, shape.ranks, link)):
        one = _by(library, shape.op, shape.ranks, message, device, link)
        if one is None:
            continue
        if best is None:
            best = one
        elif hasattr(message, "__len__"):
            import numpy as np

            own = (message <= CUSTOM_LIMIT) & (one.time < best.time)
            alpha = np.where(own, one.overhead, best.overhead)
            time = np.where(own, one.time, best.time)
            best = best._replace(time=time, overhead=alpha, network=time - alpha)
        elif message <= CUSTOM_LIMIT and one.time < best.time:
            best = one
    assert best is not None  # NCCL has a law for every link
    return best
