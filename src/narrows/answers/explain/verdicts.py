"""`prescription` and `summary`: from the verdict to what to do, and the chapter in three rows."""

from __future__ import annotations

from narrows.answers.explain.subjects import BATCH, HIDDEN, LENGTH, NAMED, l40s, l40s_roof, model, short
from narrows.answers.explain.types import CHAPTER, Topic, exact, fixed, number, row, step, table, words
from narrows.roofline import PRESCRIPTIONS, roof
from narrows.step.textbook import Matmul
from narrows.text import Text
from narrows.units import binary, decimal, seconds

_VERDICTS = {
    "compute": Text("compute-bound → fewer or cheaper FLOPs:"),
    "memory bandwidth": Text("memory-bandwidth-bound → move fewer bytes, or use each more often:"),
    "capacity": Text("capacity-bound → keep fewer bytes:"),
}


def prescription() -> Topic:
    """What helps each verdict, and two changes tried on both phases of a 4096 × 4096 product."""
    device, top = l40s(), l40s_roof()
    faster = roof(device, "fp8")
    fast = type(top)(faster.peak, top.bandwidth)
    rows = []
    for name, label, tokens in (
        ("decode", Text("decode, 1 row"), 1),
        ("prefill", Text("prefill, {n} rows", n=str(LENGTH)), LENGTH),
    ):
        before = top.time(Matmul(tokens, HIDDEN, HIDDEN))
        fewer = top.time(Matmul(tokens, HIDDEN, HIDDEN, width=1))
        cheaper = fast.time(Matmul(tokens, HIDDEN, HIDDEN))
        rows.append(
            row(name, words(label), *(number(seconds(value), value, "s") for value in (before, fewer, cheaper)))
        )
    columns = (
        Text("product"),
        Text("as it is"),
        Text("half the bytes"),
        Text("higher peak"),
    )
    return Topic(
        "prescription",
        Text("From verdict to prescription"),
        (
            *(step(name.replace(" ", "_"), text, points=PRESCRIPTIONS[name]) for name, text in _VERDICTS.items()),
            step(
                "tried",
                Text(
                    "The wrong medicine does nothing. Least time of [rows,h] × [h,h] with h = {hidden} on the "
                    "{gpu}: as it is, with half the bytes (1 per element), with the peak of FP8 ({times} ×):",
                    gpu=device.name,
                    hidden=str(HIDDEN),
                    times=fixed(faster.peak / top.peak, 2),
                ),
                table=table(columns, *rows),
            ),
        ),
        (CHAPTER, device.source),
    )


def summary() -> Topic:
    """Loading is bound by capacity, long prefill by compute, decode by bandwidth."""
    device, top, spec = l40s(), l40s_roof(), model()
    weights = NAMED * spec.precision.dtype.bits // 8
    total = BATCH * spec.kv_bytes_per_sequence(LENGTH)
    prefill, decode = Matmul(LENGTH, HIDDEN, HIDDEN).intensity, Matmul(1, HIDDEN, HIDDEN).intensity
    return Topic(
        "summary",
        Text("Summary: three phases, three limits"),
        (
            step(
                "table",
                Text("{model} on the {gpu}:", model=short(spec), gpu=device.name),
                table=table(
                    (Text("phase"), Text("limit"), Text("figure"), Text("against, or what")),
                    row(
                        "loading",
                        words(Text("loading")),
                        words(Text("GPU memory capacity")),
                        number(decimal(weights, 0), weights, "B"),
                        words(Text("weights, by the name")),
                    ),
                    row(
                        "kv",
                        words(""),
                        words(""),
                        number(binary(total, 0), total, "B"),
                        words(Text("KV cache, {batch} × {length}", batch=BATCH, length=str(LENGTH))),
                    ),
                    row(
                        "prefill",
                        words(Text("prefill")),
                        words(Text("compute, when long")),
                        number(f"{prefill:.0f} FLOP/B", prefill, "FLOP/B"),
                        words(Text("ridge {ridge}, s = {s}", ridge=fixed(top.ridge, 0), s=str(LENGTH))),
                    ),
                    row(
                        "decode",
                        words(Text("decode")),
                        words(Text("bandwidth, always")),
                        number(f"{decode:.1f} FLOP/B", decode, "FLOP/B"),
                        words(Text("ridge {ridge}", ridge=fixed(top.ridge, 0))),
                    ),
                ),
            ),
            step(
                "ratio",
                Text("At s = {s} the two phases of the same model are this far apart:", s=str(LENGTH)),
                f"{prefill:.2f} ÷ {decode:.4f} = {prefill / decode:.0f} ×",
                exact(prefill / decode, "1"),
            ),
        ),
        (CHAPTER, device.source),
    )
