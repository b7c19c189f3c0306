"""The prediction of a start on this very machine: the law's figure moved by what the log shows to be off."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from narrows.deployment import Deployment, stages
from narrows.engines.paging import paging_rules
from narrows.memory import Start, start
from narrows.memory.capacity import stated_tokens
from narrows.memory.pages import LayerPages
from narrows.memory.paging import Paging, lay_out, layer_pages
from narrows.quantity import Quantity

Stage = Literal["share", "load", "kv", "graphs", "started"]


class Predicted(msgspec.Struct, frozen=True):
    """A start, predicted. kv: bytes for the cache per device; tokens: as this version would state them."""

    deployment: Deployment
    start: Start
    pages: Paging
    stage: Stage
    kv: Quantity
    blocks: int
    tokens: int
    concurrency: float

    @property
    def starts(self) -> bool:
        """Whether it reaches its end and can admit a request of the longest length."""
        return self.stage == "started"


def predict(deployment: Deployment, *, shift: int = 0, block: int | None = None) -> Predicted:
    """The start of a deployment. shift: bytes that the machine was seen to have beside the prediction.

    block: tokens of a page, where the log states them.
    """
    begun = start(deployment)
    pages = begun.pages if block is None else _paging(deployment, begun.shard.stage, block)
    kv = begun.kv
    if shift and deployment.kv_cache_bytes is None:
        # the machine has shown its figure: what is left of the interval is rounding
        moved = kv.value + shift
        kv = Quantity(moved, "B", "predicted", moved, moved)
    have = int(kv.value)
    blocks, needed = pages.blocks(have), pages.blocks_per_request(deployment.max_length)
    spare = 0 if deployment.engine.whole_prompts else 1  # the null block
    stage: Stage = begun.stage
    if stage in ("kv", "started") or deployment.accelerator.is_cpu or (deployment.kv_cache_bytes and stage == "share"):
        stage = "kv" if blocks - spare < needed or begun.exceeds else "started"
    return Predicted(
        deployment=deployment,
        start=begun,
        pages=pages,
        stage=stage,
        kv=kv,
        blocks=blocks,
        tokens=stated_tokens(deployment, pages, have) if have > 0 else 0,
        concurrency=blocks / needed if needed else 0.0,
    )


def _paging(deployment: Deployment, stage: int, block: int) -> Paging:
    """`memory.paging` with the page that the log states."""
    rules = paging_rules(deployment.engine.name, "cpu" if deployment.accelerator.is_cpu else "cuda")
    rules = msgspec.structs.replace(rules, block=block, latent_block=block, latent_block_fp8=block, indexed_block=block)
    layers = stages(deployment.model.layers, deployment.pipeline_parallel)[stage]
    counts: Counter[LayerPages] = Counter()
    for layer, indices in deployment.model.kinds:
        for kind in layer_pages(layer.mixer, deployment, rules):
            counts[kind] += sum(1 for index in indices if index in layers)
    return lay_out(+counts, rules, deployment.kv.bits, deployment.max_num_batched_tokens)
