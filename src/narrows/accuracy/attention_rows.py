"""Measured attention as operators whose shapes hold columns, by what has a law of its own."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from narrows.accuracy.columns import columns
from narrows.accuracy.operator_rows import device_of
from narrows.hardware import Accelerator
from narrows.roofline.attention import LARGE_CACHE, LONG_PROMPT, kind_of
from narrows.step import AttentionShape, Operator

HEAD = 128
"""Elements of a head in all rows."""
BEYOND_BANDWIDTH = 0.05
"""A table in which more of the rows than this are faster than memory allows is not believed at all."""


class Rows(NamedTuple):
    """Rows of one device, engine, law (`kind_of`) and precision of cache. operator: one, its shape holds columns of
    sequences, tokens and heads. seconds: measured. large: which are scored. impossible: whether the table is not
    believed (`BEYOND_BANDWIDTH`).
    """

    device: Accelerator
    engine: str
    kind: str
    cache: str
    precision: str
    test: bool
    operator: Operator
    seconds: Any
    large: Any
    impossible: bool

    @property
    def law_engine(self) -> str:
        """What the law is filed under: the open kernels that vLLM takes have no engine's name."""
        return "" if self.engine == "vllm" else self.engine


def operator_of(phase: Any, columns: dict[str, Any], precision: str, cache: str) -> Operator:
    """One operator of equal sequences; the columns `sequences`, `tokens`, `heads`, `kv_heads` may be numbers."""
    sequences, tokens, heads, kv_heads = (columns[name] for name in ("sequences", "tokens", "heads", "kv_heads"))
    bits = 8 if cache == "fp8" else 16
    if phase == "prefill":
        new, pairs = tokens, sequences * tokens * (tokens + 1) / 2
    else:
        new, pairs = 1, sequences * tokens
    shape = AttentionShape(
        phase, sequences, sequences * new, sequences * tokens, pairs, heads, kv_heads, HEAD, HEAD, bits
    )
    flops = 4 * pairs * heads * HEAD
    read = 2 * sequences * tokens * kv_heads * HEAD * bits / 8
    moved = 2 * sequences * new * heads * HEAD
    return Operator("attention.core", shape, 1, precision, flops, reads=moved, writes=moved, kv_reads=read)


@cache
def attention_rows() -> tuple[Rows, ...]:
    """All rows, in groups of one law each."""
    import numpy as np

    data = columns("operators-attention.npz")
    own = np.where(data["heads"] == data["kv_heads"], "own", "shared")
    own = np.where(data["phase"] == "prefill", "", own)
    names = [data[name] for name in ("device", "engine", "phase", "precision", "cache", "split")] + [own]
    keys, which = np.unique(np.stack([name.astype("U32") for name in names]), axis=1, return_inverse=True)
    found = []
    for number, (device_id, engine, phase, precision, kept, split, _) in enumerate(keys.T.tolist()):
        mine = which.ravel() == number
        picked = {name: data[name][mine].astype(float) for name in ("sequences", "tokens", "heads", "kv_heads")}
        operator, device = operator_of(phase, picked, precision, kept), device_of(device_id)
        seconds = data["seconds"][mine].astype(float)
        read, first = np.asarray(operator.kv_reads), {name: column[0] for name, column in picked.items()}
        shape = operator_of(phase, first, precision, kept).shape
        assert isinstance(shape, AttentionShape)
        large = picked["tokens"] >= LONG_PROMPT if phase == "prefill" else read >= LARGE_CACHE
        faster = (read > 4 * (device.l2_bytes or 0)) & (seconds * device.memory_bandwidth < read)
        believed = phase == "prefill" or faster.mean() < BEYOND_BANDWIDTH
        kind = kind_of(shape, precision)
        found.append(
            Rows(device, engine, kind, kept, precision, split == "test", operator, seconds, large, not believed)
        )
    return tuple(found)


def picked(rows: Rows, which: Any) -> Rows:
    """The rows that an index or mask picks."""
    shape = rows.operator.shape
    assert isinstance(shape, AttentionShape)
    phase, cache = shape.phase, rows.cache
    tokens = shape.keys / shape.sequences
    columns = {"sequences": shape.sequences, "tokens": tokens, "heads": shape.heads, "kv_heads": shape.kv_heads}
    chosen: dict[str, Any] = {name: column[which] for name, column in columns.items()}  # type: ignore[index]
    operator = operator_of(phase, chosen, rows.precision, cache)
    return rows._replace(operator=operator, seconds=rows.seconds[which], large=rows.large[which])
