"""`hierarchy`: memories between GPU memory and the compute units, and attention that stays on the chip."""

from __future__ import annotations

from narrows.answers.explain.picture import picture
from narrows.answers.explain.subjects import LENGTH, attention, l40s, l40s_roof, model, verdict
from narrows.answers.explain.types import CHAPTER, Row, Topic, exact, fixed, number, row, step, table, words
from narrows.hardware import Accelerator
from narrows.step.textbook import PrefillAttention
from narrows.text import Text
from narrows.units import bandwidth, binary, decimal, gib


def hierarchy() -> Topic:
    """Sizes of the L40S's memories; naive against fused attention of one head over 4096 tokens."""
    device, top = l40s(), l40s_roof()
    dim = attention(model()).head_dim
    naive = PrefillAttention(LENGTH, 1, 1, dim, fused=False)
    fused = PrefillAttention(LENGTH, 1, 1, dim, fused=True)
    return Topic(
        "hierarchy",
        Text("Memory hierarchy: the way of a byte to the compute units"),
        (
            step(
                "path",
                Text("What is computed with must come this way, and each leg is faster than the one before it:"),
                points=(Text("GPU memory → L2 → L1 / shared memory → registers → units"),),
            ),
            step(
                "levels",
                Text("Sizes on the {gpu}; a bandwidth is stated for the outermost only:", gpu=device.name),
                table=table((Text("level"), Text("size"), Text("bandwidth")), *_levels(device)),
            ),
            step(
                "reference",
                Text(
                    "The first leg is the slowest, and a byte that is used once must take it: so its bandwidth is the "
                    'reference of the roofline. What the name hides: "HBM" stands for any memory beside the chip; '
                    "this GPU has {kind}.",
                    kind=device.memory_type,
                ),
            ),
            step(
                "exception",
                Text(
                    "FlashAttention is the exception. One head over {length} tokens, head dim {dim}, does either way:",
                    length=str(LENGTH),
                    dim=dim,
                ),
                f"2 × 2 × {LENGTH}² × {dim} = {naive.flops / 1e9:.2f}×10⁹ FLOP",
                exact(naive.flops, "FLOP"),
            ),
            step(
                "scores",
                Text("Naive attention makes a matrix of scores, far larger than the SRAM of one multiprocessor:"),
                f"{naive.width} B × {LENGTH}² = {binary(naive.score_bytes, 0)}",
                exact(naive.score_bytes, "B"),
            ),
            step(
                "fused_bytes",
                Text(
                    "Q, K, V and the output must move in any case. Fused attention keeps tiles of the scores in "
                    "SRAM, and at best moves nothing else:"
                ),
                f"4 × {fused.width} B × {LENGTH} × {dim} = {decimal(fused.bytes)}",
                exact(fused.bytes, "B"),
            ),
            step(
                "naive_bytes",
                Text(
                    "Naive attention also writes the scores, reads them for the softmax, writes the probabilities and "
                    "reads them again:"
                ),
                f"{decimal(fused.bytes)} + 4 × {decimal(naive.score_bytes)} = {decimal(naive.bytes)}",
                exact(naive.bytes, "B"),
            ),
            step(
                "naive_intensity",
                Text("Intensity of naive attention:"),
                f"{naive.flops / 1e9:.2f}×10⁹ FLOP ÷ {decimal(naive.bytes)} = {naive.intensity:.2f} FLOP/B",
                exact(naive.intensity, "FLOP/B"),
            ),
            step(
                "fused_intensity",
                Text("Intensity of fused attention, s ÷ 2:"),
                f"{fused.flops / 1e9:.2f}×10⁹ FLOP ÷ {decimal(fused.bytes)} = {fused.intensity:.0f} FLOP/B",
                exact(fused.intensity, "FLOP/B"),
            ),
            step(
                "verdicts",
                Text(
                    "The same FLOPs with {ratio} times fewer bytes: naive attention is {naive}, fused attention is "
                    "{fused}.",
                    ratio=fixed(naive.bytes / fused.bytes, 0),
                    naive=verdict(top.bound(naive.intensity)),
                    fused=verdict(top.bound(fused.intensity)),
                ),
                f"{naive.intensity:.0f} < {top.ridge:.0f} < {fused.intensity:.0f} FLOP/B",
                exact(naive.bytes / fused.bytes, "1"),
            ),
        ),
        (CHAPTER, device.source, "Dao et al., FlashAttention (2022)"),
        roofline=picture(
            device, [(Text("naive attention"), naive.intensity), (Text("fused attention"), fused.intensity)]
        ),
    )


def _levels(device: Accelerator) -> list[Row]:
    """What the catalogue knows of each level; unknown sizes are left out."""
    rows = [
        row(
            "memory",
            words(Text("GPU memory ({kind})", kind=device.memory_type)),
            number(gib(device.memory_bytes), device.memory_bytes, "B"),
            number(bandwidth(device.memory_bandwidth), device.memory_bandwidth, "B/s", "cited"),
            known="cited",
        )
    ]
    if device.l2_bytes is not None:
        rows.append(
            row(
                "l2",
                words("L2"),
                number(binary(device.l2_bytes, 0), device.l2_bytes, "B", "cited"),
                words("–"),
                known="cited",
            )
        )
    if device.sram_bytes is not None and device.sm_count:
        each = device.sram_bytes // device.sm_count
        shown = f"{device.sm_count} × {binary(each, 0)} = {binary(device.sram_bytes)}"
        rows.append(
            row(
                "sram",
                words(Text("L1 / shared memory (SRAM)")),
                number(shown, device.sram_bytes, "B", "cited"),
                words("–"),
                known="cited",
            )
        )
    return rows
