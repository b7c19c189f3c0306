"""Predicted × reported, term by term. Sizes are bytes of the binding rank."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from narrows.diagnosis.situation import Situation
from narrows.memory import Reserve
from narrows.quantity import Quantity


class Comparison(msgspec.Struct, frozen=True):
    """One term. residual = reported − predicted, where both are known."""

    name: str
    unit: str
    predicted: Quantity | None
    reported: float | None
    residual: float | None


def compared(rows: Iterable[tuple[str, str, Quantity | None, float | None]]) -> tuple[Comparison, ...]:
    """Rows of (name, unit, predicted, reported), with their residuals; a row that has neither is left out."""
    return tuple(
        Comparison(
            name,
            unit,
            predicted,
            reported,
            round(reported - predicted.value, 4) if predicted is not None and reported is not None else None,
        )
        for name, unit, predicted, reported in rows
        if predicted is not None or reported is not None
    )


def comparisons(situation: Situation) -> tuple[Comparison, ...]:
    """Every term that is predicted or reported, in the order of the ledger."""
    terms, seen, base = situation.terms, situation.seen, situation.law
    rows: list[tuple[str, str, Quantity | None, float | None]] = []

    def add(name: str, unit: str, predicted: Quantity | float | None, reported: float | None) -> None:
        if isinstance(predicted, int | float):
            predicted = Quantity(predicted, unit, "predicted")
        rows.append((name, unit, predicted, reported))

    kept = base.start.reserve if base else None
    processor = base is not None and base.deployment.accelerator.is_cpu
    add("weights", "B", base.start.weights if base else None, terms.weights)
    add("activations", "B", kept.activations if kept and not processor else None, terms.activations)
    add("non_torch", "B", kept.runtime if kept and not processor else None, terms.non_torch)
    graphs = terms.graphs if terms.graphs is not None else terms.graphs_estimated
    captures = kept is not None and not processor and base is not None and base.deployment.graphs
    add("graphs", "B", _graphs(kept) if kept and captures else None, graphs)
    add("state", "B", None, terms.state)
    add("kv_cache", "B", base.kv if base else None, terms.kv_cache)
    if seen.engine == "vllm" or base is not None:
        add("blocks", "blocks", base.blocks if base else None, seen.gpu_blocks)
    exact = base is not None and base.kv.kind == "exact"
    add("kv_tokens", "tokens", _counted(base.tokens, "tokens", exact) if base else None, seen.kv_tokens)
    concurrency = _counted(round(base.concurrency, 2), "sequences", exact) if base else None
    add("max_concurrency", "sequences", concurrency, seen.max_concurrency)
    longest = seen.estimated_max_len or _fitted(situation)
    if longest is not None:
        add("longest_request", "tokens", _longest(situation), longest)
    return compared(rows)


def _graphs(kept: Reserve) -> Quantity:
    """Bytes of graphs with their interval, where there is one."""
    if not kept.graphs_high:
        return Quantity(kept.graphs, "B", "predicted")
    return Quantity(kept.graphs, "B", "predicted", kept.graphs_low, kept.graphs_high)


def _counted(value: float, unit: str, exact: bool) -> Quantity:
    return Quantity(value, unit, "exact" if exact else "predicted")


def _fitted(situation: Situation) -> int | None:
    """The length that the engine fitted by itself, if it was told to."""
    fitted = any("Auto-fit max_model_len" in line.text for line in situation.seen.evidence)
    return situation.settings.max_model_len if fitted else None


def _longest(situation: Situation) -> Quantity | None:
    """Tokens of the longest request that the predicted pool admits."""
    base = situation.law
    if base is None or base.kv.value <= 0:
        return None
    limit = base.deployment.model.max_length or base.deployment.max_length
    return _counted(base.pages.longest(int(base.kv.value), limit), "tokens", base.kv.kind == "exact")
