"""Collectives against what was measured: the law of a link on devices left out, tables on sizes left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from typing import Any, NamedTuple

from narrows.accuracy.board import MIN_CLAIM, Interval, Score
from narrows.calibration.collectives import CollectiveTable, collective_tables
from narrows.hardware import find_accelerator
from narrows.roofline.collectives import Curve, law_time, rising, traffic
from narrows.roofline.link import Link, link_of

NAMES = ("a0", "a1", "e0", "g", "p")
START = {"a0": 5e-6, "a1": 1e-6, "e0": 0.7, "g": 0.05, "p": 0.8}
BASELINE = 0.8
"""Of the link's speed on paper, and nothing for latency: what plain rooflines take."""


class Point(NamedTuple):
    """One measured collective: bytes that a rank holds before, seconds."""

    device: str
    op: str
    library: str
    ranks: int
    link: Link
    size: int
    time: float


def points(tables: Iterable[CollectiveTable] | None = None) -> tuple[Point, ...]:
    """All measured collectives with the link they went over."""
    found = []
    for table in collective_tables() if tables is None else tables:
        device = find_accelerator(table.device)
        link = link_of(device, table.ranks)
        if table.nodes > 1:
            link = Link("between nodes", device.links.pcie or 0.0, assumed=True)
        found += [
            Point(table.device, table.op, table.library, table.ranks, link, size, 1e-6 * time)
            for size, time in zip(table.bytes, table.microseconds, strict=True)
        ]
    return tuple(found)


def groups(rows: Iterable[Point]) -> dict[tuple[str, str, str], list[Point]]:
    """Points by operation, library and kind of link: what has a law of its own."""
    found: dict[tuple[str, str, str], list[Point]] = {}
    for row in rows:
        found.setdefault((row.op, row.library, row.link.kind), []).append(row)
    return found


def fit(rows: Sequence[Point], steps: int = 60) -> dict[str, float]:
    """The law of `rows`: least squares of the logarithms of the times, damped (Levenberg–Marquardt).

    Every device weighs the same. What the rows cannot tell stays as it starts (a1 and g, where all have two ranks).
    """
    import numpy as np

    one = len({row.ranks for row in rows}) == 1
    weight = np.array([sum(other.device == row.device for other in rows) ** -0.5 for row in rows])
    measured = np.log([row.time for row in rows])

    def values(theta: Any) -> dict[str, float]:
        free = np.clip(theta, [-16, -20, -4, -0.5, -1.2], [-7, -9, 1.0, 2.0, 1.0])
        given = np.exp(free)
        return {
            "a0": float(given[0]),
            "a1": 0.0 if one else float(given[1]),
            "e0": float(given[2]),
            "g": 0.0 if one else float(free[3]),
            "p": float(given[4]),
        }

    def residual(theta: Any) -> Any:
        now = values(theta)
        times = [law_time(row.size, row.op, row.ranks, row.link, now) for row in rows]
        return weight * (np.log(times) - measured)

    start = START
    theta = np.array([np.log(start["a0"]), np.log(start["a1"]), np.log(start["e0"]), start["g"], np.log(start["p"])])
    damping, error = 1e-2, residual(theta)
    for _ in range(steps):
        jacobian = np.stack([(residual(theta + 1e-4 * step) - error) / 1e-4 for step in np.eye(5)], axis=1)
        normal = jacobian.T @ jacobian
        move = np.linalg.solve(normal + damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(5)), -jacobian.T @ error)
        trial = residual(theta + move)
        if trial @ trial < error @ error:
            done = error @ error - trial @ trial < 1e-9 * (error @ error)
            theta, error, damping = theta + move, trial, damping / 3
            if done:
                break
        else:
            damping *= 4
    return values(theta)


def left_out(rows: Sequence[Point]) -> list[tuple[Point, float]]:
    """Each point with its time by the law of the other devices; nothing where there is one device only."""
    found = []
    for device in sorted({row.device for row in rows}):
        others = [row for row in rows if row.device != device]
        if others:
            values = fit(others)
            found += [
                (row, law_time(row.size, row.op, row.ranks, row.link, values)) for row in rows if row.device == device
            ]
    return found


def every_other(table: CollectiveTable) -> list[tuple[float, float]]:
    """(measured, interpolated) of every second size, from the sizes between them."""
    seconds = tuple(1e-6 * time for time in table.microseconds)
    curve = Curve(table.bytes[::2], rising(seconds[::2]))
    # the last one would be extrapolated where the number of sizes is even
    inner = range(1, len(seconds) - 1, 2)
    return [(seconds[i], curve(table.bytes[i])) for i in inner]


def score(quantity: str, group: str, method: str, pairs: Sequence[tuple[float, float]], sources: int) -> Score:
    """The line of (measured, predicted) pairs."""
    signed = sorted(predicted / measured - 1 for measured, predicted in pairs)
    errors = sorted(map(abs, signed))
    n = len(errors)
    return Score(
        quantity=quantity,
        group=group,
        method=method,
        n=n,
        sources=sources,
        median=errors[n // 2],
        p90=errors[min(n - 1, int(0.9 * n))],
        worst=errors[-1],
        bias=signed[n // 2],
        claims=n >= MIN_CLAIM,
    )


def collective_scores() -> tuple[Score, ...]:
    """Laws of links on devices left out, plain link speed beside them, and tables on every other size left out."""
    found = []
    for (op, library, kind), rows in sorted(groups(points()).items()):
        pairs = [(row.time, time) for row, time in left_out(rows)]
        if not pairs:
            continue
        devices = len({row.device for row in rows})
        group = f"{op} {library}, {kind}"
        found.append(score("collectives", group, "law of the link, device left out", pairs, devices))
        plain = [(r.time, r.size * traffic(r.op, r.ranks) / (BASELINE * r.link.bandwidth)) for r in rows]
        found.append(score("collectives", group, "0.8 of the link", plain, devices))
    for op in sorted({table.op for table in collective_tables()}):
        tables = [table for table in collective_tables() if table.op == op]
        pairs = [pair for table in tables for pair in every_other(table)]
        devices = len({table.device for table in tables})
        found.append(score("collectives", op, "table, every other size left out", pairs, devices))
    return tuple(found)


def interval(ratios: dict[str, list[float]]) -> tuple[float, float]:
    """80 % of measured ÷ predicted, by device: the 10th and the 90th percentile, wider the fewer devices they rest on.

    Points of one device err together; a factor of 1 + 1/devices in the logarithm makes up for it.
    """
    found = sorted(log(ratio) for own in ratios.values() for ratio in own)
    low, high = found[int(0.1 * len(found))], found[min(len(found) - 1, int(0.9 * len(found)))]
    wider = 1 + 1 / len(ratios)
    return exp(low * wider), exp(high * wider)


def ratios_left_out(rows: Sequence[Point]) -> dict[str, list[float]]:
    """Measured ÷ predicted by device, each by the law of the others."""
    found: dict[str, list[float]] = {}
    for row, time in left_out(rows):
        found.setdefault(row.device, []).append(row.time / time)
    return found


def covered(group: str, ratios: dict[str, list[float]]) -> Interval:
    """How often measured ÷ predicted of a device lies in the interval of the others, and how wide that is."""
    inside, widths = 0, []
    for device, own in ratios.items():
        low, high = interval({name: found for name, found in ratios.items() if name != device})
        inside += sum(low <= ratio <= high for ratio in own)
        widths += [(high - low) / ratio for ratio in own]
    widths.sort()
    n = len(widths)
    return Interval(group, n, inside / n, sum(widths) / n, widths[n // 2])


def ratios_of_tables() -> dict[str, list[float]]:
    """Measured ÷ interpolated of every other size, by device."""
    found: dict[str, list[float]] = {}
    for table in collective_tables():
        found.setdefault(table.device, []).extend(a / b for a, b in every_other(table))
    return found


def collective_intervals() -> tuple[Interval, ...]:
    """The 80 % intervals on devices left out, where three or more were measured; and of tables between their sizes."""
    found = []
    for (op, library, kind), rows in sorted(groups(points()).items()):
        ratios = ratios_left_out(rows)
        if len(ratios) > 2:
            found.append(covered(f"{op} {library}, {kind}", ratios))
    return (*found, covered("table, every other size left out", ratios_of_tables()))
