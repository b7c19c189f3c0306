"""`intensity` and `matmul`: FLOPs per byte, the ridge point, and what a matrix product comes to."""

from __future__ import annotations

import math

from narrows.answers.explain.picture import picture
from narrows.answers.explain.subjects import attention, l40s, l40s_roof, limit, model, short
from narrows.answers.explain.types import CHAPTER, Row, Step, Topic, exact, fixed, number, row, step, table, words
from narrows.step.textbook import Elementwise, Matmul, Reduction
from narrows.text import Text
from narrows.units import bandwidth, count, rate

_SQUARES = (64, 512, 4096)
_EXAMPLES = (210, 1000)


def intensity() -> Topic:
    """Arithmetic intensity, the ridge point of the L40S, and two workloads left and right of it."""
    device, top = l40s(), l40s_roof()
    steps = [
        step(
            "definition",
            Text(
                "Arithmetic intensity: FLOPs done per byte that moves between GPU memory and the compute units. "
                "A multiply-add counts as 2 FLOPs."
            ),
            "intensity = FLOPs ÷ bytes  [FLOP/B]",
        ),
        step(
            "roof",
            Text("The roofline: no more than the peak, and no more than memory can feed."),
            "FLOP/s ≤ min(peak, bandwidth × intensity)",
        ),
        step(
            "ridge",
            Text(
                'They meet at the ridge point. {gpu}, BF16, dense (data sheets also print a doubled "sparse" figure):',
                gpu=device.name,
            ),
            f"{top.peak / 1e12:g}×10¹² FLOP/s ÷ {top.bandwidth / 1e9:g}×10⁹ B/s = {top.ridge:.0f} FLOP/B",
            exact(top.ridge, "FLOP/B"),
        ),
    ]
    for example in _EXAMPLES:
        steps += _example(example)
    return Topic(
        "intensity",
        Text("Arithmetic intensity and the ridge point"),
        tuple(steps),
        (CHAPTER, device.source),
        more="narrows gpus l40s",
        roofline=picture(device, [(Text("example"), value) for value in _EXAMPLES]),
    )


def _example(value: int) -> list[Step]:
    top = l40s_roof()
    reached = top.attainable(value)
    fed = f"{bandwidth(top.bandwidth)} × {value} FLOP/B = {rate(top.bandwidth * value)}"
    if top.bound(value) == "compute":
        return [
            step(
                f"at_{value}",
                Text(
                    "A workload at {value} FLOP/B is compute-bound: memory could feed more than the units can do.",
                    value=str(value),
                ),
                f"{fed} > {rate(top.peak)}",
                exact(reached / top.peak, "1"),
            )
        ]
    return [
        step(
            f"at_{value}",
            Text(
                "A workload at {value} FLOP/B is memory-bandwidth-bound: the units wait for about half of the time.",
                value=str(value),
            ),
            f"{fed} = {reached / top.peak * 100:.0f} % × {rate(top.peak)}",
            exact(reached / top.peak, "1"),
        )
    ]


def matmul() -> Topic:
    """FLOPs and bytes of [M, K] × [K, N], square ones at three sizes, and the operators with little intensity."""
    device, top = l40s(), l40s_roof()
    squares = [Matmul(size, size, size) for size in _SQUARES]
    small = squares[0]
    turn = math.ceil(3 * top.ridge)
    adding, summing = Elementwise(_SQUARES[-1] ** 2, inputs=2), Reduction(_SQUARES[-1], _SQUARES[-1])
    rows: list[Row] = [
        row(
            str(one.m),
            words(str(one.m)),
            number(f"{one.flops:,}", one.flops, "FLOP"),
            number(f"{one.bytes:,}", one.bytes, "B"),
            number(f"{one.intensity:.1f}", one.intensity, "FLOP/B"),
            words(limit(top.bound(one.intensity))),
        )
        for one in squares
    ]
    exactly = small.multiplications + small.additions
    return Topic(
        "matmul",
        Text("Matrix product [M,K] × [K,N]"),
        (
            step(
                "count",
                Text("Exactly MNK multiplications and MN(K − 1) additions. At M = N = K = {size}:", size=small.m),
                f"{count(small.multiplications)} + {count(small.additions)} = {count(exactly)} FLOP",
                exact(exactly, "FLOP"),
            ),
            step(
                "flops",
                Text(
                    "In practice 2MNK. What the rounding hides is {percent} % here, and less the larger K:",
                    percent=fixed((small.flops / exactly - 1) * 100, 1),
                ),
                f"2 × {small.m} × {small.n} × {small.k} = {count(small.flops)} FLOP",
                exact(small.flops, "FLOP"),
            ),
            step(
                "bytes",
                Text("Both inputs are read and the output is written, {width} bytes per element:", width=small.width),
                f"{small.width} × (MK + KN + MN) = {small.width} × 3 × {small.m}² = {count(small.bytes)} B",
                exact(small.bytes, "B"),
            ),
            step(
                "intensity",
                Text("Their ratio; for a square product a third of its size:"),
                f"MNK ÷ (MK + KN + MN) = {small.m} ÷ 3 = {small.intensity:.1f} FLOP/B",
                exact(small.intensity, "FLOP/B"),
            ),
            step(
                "table",
                Text(
                    "Square products against {ridge} FLOP/B of the {gpu} (the chapter cuts 170.7 to 170):",
                    ridge=fixed(top.ridge, 0),
                    gpu=device.name,
                ),
                table=table((Text("size"), Text("FLOP"), Text("bytes"), Text("FLOP/B"), Text("bound by")), *rows),
            ),
            step(
                "turn",
                Text("Compute-bound from:"),
                f"n ÷ 3 ≥ {top.ridge:.1f}  →  n ≥ {turn}",
                exact(turn, "rows"),
            ),
            *_others(adding, summing),
        ),
        (CHAPTER, device.source),
        roofline=picture(device, [(Text("matmul {size}", size=str(one.m)), one.intensity) for one in squares]),
    )


def _others(adding: Elementwise, summing: Reduction) -> list[Step]:
    """Element-wise and reduction operators: little intensity, and a small share of a transformer block's FLOPs."""
    spec = model()
    layer = spec.groups[0].layer
    matmuls = 2 * sum(tensor.elements for tensor in layer.tensors() if tensor.use == "linear")
    wide = next(tensor.shape[0] for tensor in layer.tensors() if tensor.role == "mlp.up")
    hidden, heads = spec.hidden, attention(spec)
    rotated = (heads.heads + heads.kv_heads) * heads.head_dim
    rest = (
        2 * Elementwise(hidden, inputs=2).flops
        + 2 * (Reduction(1, hidden).flops + Elementwise(hidden, flops_per_element=3).flops)
        + Elementwise(rotated, inputs=2, flops_per_element=3).flops
        + Elementwise(wide, inputs=2, flops_per_element=5).flops
    )
    return [
        step(
            "elementwise",
            Text("Element-wise work, such as adding the residual, does 1 FLOP per 3 elements moved:"),
            f"{adding.flops_per_element} ÷ (3 × {adding.width} B) = {adding.intensity:.2f} FLOP/B",
            exact(adding.intensity, "FLOP/B"),
        ),
        step(
            "reduction",
            Text("A reduction, such as the sum inside a norm, does 1 FLOP per element read:"),
            f"1 ÷ {summing.width} B = {summing.intensity:.2f} FLOP/B",
            exact(summing.intensity, "FLOP/B"),
        ),
        step(
            "share",
            Text(
                "Both are memory-bandwidth-bound on any GPU, but small. Their share of the FLOPs of a {model} "
                "block per token, apart from attention over the context:",
                model=short(spec),
            ),
            f"{count(rest)} ÷ {count(matmuls + rest)} = {rest / (matmuls + rest) * 100:.2f} %",
            exact(rest / (matmuls + rest), "1"),
        ),
    ]
