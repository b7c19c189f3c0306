"""Deployment: a model on accelerators, with parallelism, precision and an engine's flags resolved."""

from __future__ import annotations

import msgspec

from narrows.engines import Engine
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.spec import Layer, Tower
from narrows.precision import Format
from narrows.text import Text


class Draft(msgspec.Struct, frozen=True):
    """What drafts tokens for a model that verifies them: a model or a head of its own, or prediction layers.

    method: of `engines.speculative`; tokens: drafted per step. model: the draft's own; None: it has none. towers,
    layers: prediction layers of the target's file, `unquantized` whatever the target is. tensor_parallel: ranks that
    share a model of its own; 0: as the target's. asked: the flag's value. notes: what was assumed.
    """

    method: str
    tokens: int
    model: ModelSpec | None = None
    towers: tuple[Tower, ...] = ()
    layers: tuple[Layer, ...] = ()
    unquantized: bool = False
    tensor_parallel: int = 0
    asked: str = ""
    notes: tuple[Text, ...] = ()


class Deployment(msgspec.Struct, frozen=True):
    """What runs where.

    usable: bytes per device that CUDA reports. dtype: format of what is not quantized; kv: format of the KV cache.
    max_length, max_num_seqs, max_num_batched_tokens, utilization: the engine's limits, resolved.
    """

    model: ModelSpec
    accelerator: Accelerator
    usable: int
    engine: Engine
    tensor_parallel: int
    pipeline_parallel: int
    dtype: Format
    kv: Format
    max_length: int
    max_num_seqs: int
    max_num_batched_tokens: int
    utilization: float
    graphs: bool
    kv_cache_bytes: int | None = None
    """Bytes per device that the user sets aside for the KV cache, whatever the utilization; None: what is left."""
    kv_v: Format | None = None
    """Format of the values in the KV cache, where it is another than that of the keys (llama.cpp)."""
    swa_full: bool = False
    """Layers with windows keep whole sequences all the same (llama.cpp)."""
    graph_batch: int = 0
    """Largest batch whose decode step is captured, and how many sizes of prefill steps are (SGLang)."""
    prefill_graphs: int = 0
    page_size: int = 1
    """Tokens of a page of the pool (SGLang); pools are a multiple of it."""
    max_total_tokens: int | None = None
    """Tokens of the pool at most (SGLang); None: what the memory holds."""
    expert_parallel: int = 1
    """Ranks of a stage over which experts are shared out one by one; the other ranks cut each expert's width."""
    attention_data_parallel: int = 1
    """Replicas of all but the experts, each with sequences of its own and `tensor_parallel` ranks."""
    memory_in_use: int = 0
    """Bytes of each device that other processes hold when the engine starts."""
    usable_more: int = 0
    """Bytes per device that other systems report beyond `usable`; 0 where they agree."""
    driver: int | None = None
    """Major version of the device's driver, where it is known."""
    adapters: tuple[int, int] | None = None
    """LoRA: (adapters served at once, largest rank)."""
    offload: int = 0
    """Bytes of weights per device that are to stay in host memory; what is left there ends with a whole parameter."""
    draft: Draft | None = None
    """What drafts for the model; None: every step makes one token."""
    assumptions: tuple[Text, ...] = ()

    @property
    def count(self) -> int:
        """Accelerators in all."""
        return self.ranks_per_stage * self.pipeline_parallel

    @property
    def ranks_per_stage(self) -> int:
        """Ranks of one pipeline stage, of all replicas together: those that share the experts."""
        return self.tensor_parallel * self.attention_data_parallel

    @property
    def expert_width_parallel(self) -> int:
        """In how many pieces the width of an expert is cut: ranks of a stage ÷ expert_parallel."""
        return self.ranks_per_stage // self.expert_parallel

    @property
    def draft_model(self) -> ModelSpec | None:
        """The model or head of its own that drafts; None where nothing drafts, or what drafts has none."""
        return self.draft.model if self.draft is not None else None

    @property
    def budget(self) -> int:
        """Bytes per device that the engine claims."""
        return int(self.usable * self.utilization)

    @property
    def others_inside(self) -> int:
        """Bytes of other processes that come out of what the engine claims."""
        return self.memory_in_use if self.engine.others_in_budget else 0

    @property
    def others_outside(self) -> int:
        """Bytes of other processes that lie beside what the engine claims."""
        return self.memory_in_use - self.others_inside
