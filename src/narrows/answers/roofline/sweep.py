"""A range of batches, contexts or prompts: how time, rate and bound move along it."""

from __future__ import annotations

import re
from typing import get_args

from narrows.answers.roofline.types import Parameter, Sweep, SweepPoint
from narrows.deployment import MOST_LENGTH
from narrows.memory.largest import largest
from narrows.roofline.phases import Load, PhaseTime, Served, decode, prefill
from narrows.text import BadInput

MOST_POINTS = 4096
"""Points of a sweep at most: more nobody looks at."""
_RANGE = re.compile(r"(\d{1,12})\.\.(\d{1,12})(?:([x+])(\d{1,12}(?:\.\d{1,6})?))?")


def parse_sweep(text: str) -> tuple[Parameter, list[int]]:
    """`batch=1..256` (each), `batch=1..256x2` (doubling), `context=1024..65536+1024` (steps), `prompt=1,512,4096`.

    The ends are always among the points. Raises BadInput.
    """
    name, _, values = text.partition("=")
    name = name.strip().lower()
    if name not in get_args(Parameter):
        raise BadInput(
            "--sweep is '{text}'; it starts with batch=, context= or prompt=, such as batch=1..256", text=text[:60]
        )
    points = _points(text, values.strip())
    if not points or points[0] < 1 or points[-1] > MOST_LENGTH:
        raise BadInput("--sweep is '{text}'; its points are whole numbers from 1 up", text=text[:60])
    return name, points  # type: ignore[return-value]


def _points(text: str, values: str) -> list[int]:
    found = _RANGE.fullmatch(values)
    if found is None:
        parts = values.split(",")
        if not all(part.strip().isdecimal() and len(part.strip()) <= 12 for part in parts):
            raise BadInput(
                "--sweep is '{text}'; give a range such as 1..256, with steps 1..256+8 or factors 1..256x2, or a list "
                "such as 1,2,4",
                text=text[:60],
            )
        points = sorted({int(part) for part in parts})
    else:
        first, last = int(found[1]), int(found[2])
        if first > last or first < 1:
            raise BadInput("--sweep is '{text}'; a range goes up from 1 or more, such as 1..256", text=text[:60])
        points = _between(text, first, last, found[3] or "+", float(found[4] or 1))
    if len(points) > MOST_POINTS:
        raise BadInput(
            "--sweep is '{text}', which is more than {most} points: take steps (+8) or factors (x2)",
            text=text[:60],
            most=MOST_POINTS,
        )
    return points


def _between(text: str, first: int, last: int, how: str, step: float) -> list[int]:
    if step <= (1 if how == "x" else 0) or (how == "+" and step % 1):
        raise BadInput(
            "--sweep is '{text}'; a factor is above 1 (x2, x1.5), and a step a whole number from 1 up (+8)",
            text=text[:60],
        )
    if how == "+":
        return [*range(first, last, int(step))[: 2 * MOST_POINTS], last]
    points, exact = [], float(first)
    while exact < last:
        points.append(round(exact))
        exact *= step
    return [*dict.fromkeys(points), last]


def sweep(steps: Served, load: Load, parameter: Parameter, points: list[int]) -> Sweep:
    """The phase that depends on `parameter`, at each of the points."""
    if parameter == "prompt":
        room = largest(points[-1], lambda n: steps.held(n) >= 1)
        found = [_point(n, n, prefill(steps, n), n <= room) for n in points]
        return Sweep(parameter, "prefill", tuple(found))
    if parameter == "batch":
        room = steps.held(load.context)
        found = [_point(n, n, decode(steps, n, load.context), n <= room) for n in points]
        return Sweep(parameter, "decode", tuple(found))
    room = largest(points[-1], lambda n: steps.held(n) >= load.batch)
    found = [_point(n, load.batch, decode(steps, load.batch, n), n <= room) for n in points]
    return Sweep(parameter, "decode", tuple(found))


def _point(value: int, tokens: int, time: PhaseTime, fits: bool) -> SweepPoint:
    flops, moved = time.flops, time.bytes
    return SweepPoint(
        value=value,
        time=time.time,
        tokens_per_second=tokens / time.time,
        bound=time.bound,
        intensity=flops / moved if moved else 0.0,
        attained=flops / time.time,
        fits=fits,
    )


def path(steps: Served, load: Load, most: int) -> tuple[SweepPoint, ...]:
    """Decode at 1, 2, 4, … sequences up to `most`, at the batch asked for, and at the largest that memory holds."""
    points = {1 << power for power in range(most.bit_length())} | {load.batch}
    room = steps.held(load.context)
    if 1 <= room <= most:
        points.add(room)
    return sweep(steps, load, "batch", sorted(points)).points
