"""Makes the bundled table of measured mixtures of experts, columns for numpy, from what aiconfigurator publishes.

    python -m scripts.import_operators_experts FOLDER

FOLDER holds operators-moe.csv.gz. Which experts a row's tokens went to is not in the table but follows from how its
collector draws them, which is drawn here again: `balanced` strides evenly; `power_law_a` gives each expert a load from
a power law of exponent a between 1 and 0.8 × tokens (0.01 and 2 where there are fewer choices than experts), scales to
tokens × top_k, rounds, and makes rank 0 the most loaded of the expert-parallel ranks. `touched` (experts of rank 0
with any row) and `load` (rows of rank 0 ÷ an even share) are means over `DRAWS` draws.

All rows are carried, times to three digits. Three kinds are marked as neither to fit nor to score (`excluded`): rows of
several ranks whose power law rounds to no rows at all, so that which rank works hangs on how a sort breaks ties;
fp8 experts whose width is no multiple of 16, which fall to a path 30 times slower; and tables of fewer bits that take
longer than bf16 does on the same device, in the median over equal shapes: no server would be left with them, and
kernels that were not tuned look like that. Writes
src/narrows/accuracy/data/operators-experts.npz; operators.md beside it says what stands in.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from scripts.packed_columns import DEVICES, codes, rows, seconds, write

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/accuracy/data/operators-experts.npz"
FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8 blocks", "nvfp4": "fp4", "w4a16_mxfp4": "w4a16"}
KERNELS = ("cutlass", "trtllm", "marlin", "triton")
DRAWS = 12
LARGEST_SHARE = 5.3
"""The largest load over the mean one, where loads are spread evenly over the orders from 0.01 to 2."""
FIRST_PLAIN = "vllm/0.14.0"
"""Until this version the collector built every expert with a gate, also those of models that have none."""


@cache
def routed(tokens: int, experts: int, top_k: int, ranks: int, distribution: str) -> tuple[float, float]:
    """(experts of rank 0 with any row, rows of rank 0 ÷ an even share), means over the draws."""
    draw = np.random.default_rng(0)
    of_rank = []
    for _ in range(1 if distribution == "balanced" else DRAWS):
        load = _balanced(tokens, experts, top_k) if distribution == "balanced" else None
        if load is None:
            load = _power_law(tokens, experts, top_k, ranks, float(distribution.rsplit("_", 1)[1]), draw)
        of_rank.append(np.minimum(load, tokens)[: experts // ranks])
    touched = float(np.mean([(load > 0).sum() for load in of_rank]))
    share = float(np.mean([load.sum() for load in of_rank])) * ranks / (tokens * top_k)
    return touched, share


def _balanced(tokens: int, experts: int, top_k: int) -> np.ndarray[Any, Any]:
    stride = -(-experts // top_k)
    token, choice = np.arange(tokens)[:, None], np.arange(top_k)[None]
    first = token if tokens >= stride else token * stride / tokens
    return np.asarray(np.bincount(((first + choice * stride) % experts).astype(int).ravel(), minlength=experts))


def _power_law(
    tokens: int, experts: int, top_k: int, ranks: int, exponent: float, draw: np.random.Generator
) -> np.ndarray[Any, Any]:
    least, most = (1.0, 0.8 * tokens) if tokens * top_k > experts else (0.01, 2.0)
    flat = 1 - exponent
    drawn = ((most**flat - least**flat) * draw.random(experts) + least**flat) ** (1 / flat)
    load = np.rint(drawn / drawn.sum() * tokens * top_k).astype(int)
    order = draw.permutation(experts)
    order = order[np.argsort(-load[order], kind="stable")]
    missing = tokens * top_k - int(load.sum())
    for place in range(missing):
        load[order[place % experts]] += 1
    for place in range(-missing):
        expert = order[-(place % experts) - 1]
        load[expert if load[expert] > 0 else order[0]] -= 1
    by_rank = load.reshape(ranks, -1)
    busiest = int(by_rank.sum(1).argmax())
    by_rank[[0, busiest]] = by_rank[[busiest, 0]]
    return np.asarray(by_rank.ravel())


def excluded(row: dict[str, str]) -> str:
    """Why a row is neither fitted nor scored, or nothing."""
    tokens, experts, top_k = int(row["num_tokens"]), int(row["num_experts"]), int(row["topk"])
    skewed = row["distribution"] != "balanced" and int(row["moe_ep_size"]) > 1
    if skewed and tokens * top_k * LARGEST_SHARE / experts < 0.5:
        return "ties decide which rank works"
    if row["moe_dtype"].startswith("fp8") and int(row["inter_size"]) // int(row["moe_tp_size"]) % 16:
        return "fp8 experts of a width that kernels are not made for"
    return ""


SLOWER = "fewer bits, and slower than bf16"


def slower(table: Sequence[dict[str, str]]) -> set[tuple[str, str]]:
    """(system, format) of the tables that take longer than bf16, in the median over the shapes that both have."""
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    plain: dict[tuple[str, ...], float] = {}
    for row in table:
        if row["moe_dtype"] == "bfloat16":
            plain[row["system"], row["distribution"], *(row[name] for name in names)] = float(row["latency"])
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in table:
        base = plain.get((row["system"], row["distribution"], *(row[name] for name in names)))
        if base is not None:
            ratios.setdefault((row["system"], row["moe_dtype"]), []).append(float(row["latency"]) / base)
    for key, found in sorted(ratios.items()):
        print(*key, f"{len(found)} shapes of bf16, {median(found):.2f} times its time")
    return {key for key, found in ratios.items() if median(found) > 1}


def matrices(row: dict[str, str]) -> int:
    """2 for the experts of Nemotron-H, which have no gate; else 3."""
    plain = int(row["topk"]) == 22 or (int(row["hidden_size"]), int(row["inter_size"])) == (2688, 1856)
    return 2 if plain and row["src"] != FIRST_PLAIN else 3


def order(row: dict[str, str]) -> tuple[object, ...]:
    """Rows that are alike stand together."""
    names = ("split", "system", "moe_dtype", "kernel_source", "distribution")
    sizes = ("num_experts", "hidden_size", "inter_size", "topk", "moe_tp_size", "moe_ep_size", "num_tokens")
    return (*(row[name] for name in names), *(int(row[name]) for name in sizes))


def main(folder: Path) -> None:
    """Reads the table, draws the routing, writes the columns."""
    table = sorted(rows(folder / "operators-moe.csv.gz"), key=order)
    slow = slower(table)
    reasons = [excluded(row) or (SLOWER if (row["system"], row["moe_dtype"]) in slow else "") for row in table]
    print(Counter(zip((row["split"] for row in table), reasons, strict=True)))
    sizes = ("num_tokens", "num_experts", "topk", "moe_ep_size")
    routing = [routed(*(int(row[name]) for name in sizes), row["distribution"]) for row in table]

    def whole(values: list[int], kind: Any = np.uint16) -> np.ndarray[Any, Any]:
        return np.array(values, dtype=kind)

    columns = {
        "seconds": seconds(row["latency"] for row in table),
        **codes("split", (row["split"] for row in table)),
        **codes("excluded", reasons),
        **codes("device", (DEVICES[row["system"]] for row in table)),
        **codes("format", (FORMATS[row["moe_dtype"]] for row in table)),
        **codes("kernel", (next((k for k in KERNELS if k in row["kernel_source"]), "triton") for row in table)),
        **codes("distribution", (row["distribution"] for row in table)),
        "tokens": whole([int(row["num_tokens"]) for row in table], np.uint32),
        "hidden": whole([int(row["hidden_size"]) for row in table]),
        "intermediate": whole([int(row["inter_size"]) // int(row["moe_tp_size"]) for row in table]),
        "all_experts": whole([int(row["num_experts"]) for row in table]),
        "experts": whole([int(row["num_experts"]) // int(row["moe_ep_size"]) for row in table]),
        "top_k": whole([int(row["topk"]) for row in table], np.uint8),
        "matrices": whole([matrices(row) for row in table], np.uint8),
        "touched": np.array([round(touched, 1) for touched, _ in routing], dtype=np.float32),
        "load": np.array([float(f"{load:.2e}") for _, load in routing], dtype=np.float32),
    }
    write(TARGET, columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
