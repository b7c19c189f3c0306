"""LoRA adapters as an engine is told of them: ranks for which it has kernels."""

from __future__ import annotations

from narrows.engines import Engine
from narrows.text import BadInput


def check_rank(engine: Engine, adapters: tuple[int, int] | None) -> None:
    """Refuse a largest rank that the version does not take. adapters: (served at once, largest rank)."""
    if adapters is None or not engine.lora_ranks or adapters[1] in engine.lora_ranks:
        return
    raise BadInput(
        "--max-lora-rank is {rank}, and {engine} takes {ranks}; name the least of them that no adapter's rank exceeds",
        rank=adapters[1],
        engine=engine.label,
        ranks=", ".join(map(str, engine.lora_ranks)),
    )
