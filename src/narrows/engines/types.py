"""What is known of an engine at one version, as values."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.text import Text

Sampler = Literal["sort", "triton", "flashinfer"]
Offload = Literal["none", "copied", "viewed"]
Captured = Literal["decode", "pieces", "both_fine", "both"]
FallsBack = Literal[
    "all", "old device", "GGUF", "float32", "fp8 cache", "fp8 cache but Hopper", "pipeline", "other vendors"
]
_NEVER_CUTS = "7.0"
"""Compute capability without chunked prefill in versions that take whole prompts otherwise: Volta, by vLLM's table of
features by hardware; vllm-project/vllm#11251 profiles 40,000 tokens on two V100."""


class SchedulerDefault(msgspec.Struct, frozen=True):
    """Defaults of the scheduler on devices with at least `least_memory` bytes, unless named `except_name`.

    only_names: the device's name has one of these in it (empty: any).
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    least_memory: int = 0
    except_name: str = ""
    only_names: tuple[str, ...] = ()

    def holds_for(self, memory: int, name: str) -> bool:
        """Whether a device of `memory` bytes with this name gets these defaults."""
        upper = name.upper()
        if memory < self.least_memory or (self.except_name and self.except_name in upper):
            return False
        return not self.only_names or any(only in upper for only in self.only_names)


class Engine(msgspec.Struct, frozen=True):
    """One engine at one version.

    gpu_memory_utilization: share of the device's memory the engine claims for weights, activations and KV cache.
    graphs_in_budget: memory of CUDA graphs comes out of that share (newer versions) or on top of it.
    captured: which CUDA graphs there are: of decode steps, of any step piece by piece, or both; `both_fine`: with more
        sizes for the large ones.
    nccl_in_budget: the communication library's buffers come out of that share (older versions) or on top of it.
    nvlink_in_budget: those it makes for NVLink on Hopper and newer devices do, with or without the others.
    counts_reserved: the peak counts all that the allocator has reserved (older versions), not what was in use.
    others_in_budget: what other processes hold of the device comes out of that share, as the process's own does.
    checks_free: it refuses to start where less than its share is free.
    sampler: how top-k and top-p are done, which decides the memory of sampling: by sorting all logits, or fused.
    second_runner: models that vLLM's model runner V2 runs; second_runner_sampler: it sets memory aside for sampling,
        shared out over tensor-parallel ranks; second_runner_graphs: it does so for graphs.
    whole_prompts: a step takes whole prompts, so the profiled batch is max_model_len tokens; above `chunk_above[0]`
        tokens prompts are cut, into steps of `chunk_above[1]` tokens.
    core: which of two engine cores runs, where a version has both (vLLM's V0 and V1); first_core: what runs on V0;
        first_core_gone: the version has no V0 any more. lora_ranks: what --max-lora-rank can be (empty: anything).
    aligned_latent: rows of latents are padded to 256 bytes. materializes_latent: the products of the query's and the
        output's projection with latent attention's up-projections are kept beside the weights.
    latent_cache: of latent attention the latent is kept; older versions keep keys and values of every head, padded.
    cache_groups: layers with windows have blocks of their own; older versions keep whole sequences in all layers.
    captures_follow_sequences: no graphs are captured of more sequences than run at once.
    tokens_within_sequences: the default step has at most max_num_seqs × max_model_len tokens. sequences_within_tokens:
        by default no more sequences run than a step has tokens; versions without refuse a smaller step.
    tokens_as_concurrency: "KV cache size" in tokens is int(concurrency × max_model_len), not blocks × block size.
    offload: what becomes of weights that are told to stay in host memory: a layer's are copied to the device before it
        runs, or kernels view them where they are; "none": there is no such option.
    draft_models: a whole model can draft, beside heads and prediction layers. shares_draft_embedding: what drafts takes
        the target's embedding where there is no pipeline. shares_prediction_head: prediction layers take its head.
    delta_kernels: which kernels run gated-delta layers, by what they take outside the allocator.
    experts_at_once: tokens that fused experts take at once of a longer step; 0: all.
    experts_padded_to: rows that each expert of a rank is filled up to where weights are FP8 in blocks, used or not, and
        its weights are read; 0: only experts with rows cost anything.
    measured: the version is not newer than the newest whose logs the memory law was scored on.
    older: the version that was asked for, where it is older than the oldest known, whose facts are taken.
    most_sequences: how many can run at once, whatever is asked for; 0: any number.
    sources: fact → where it is from. assumptions: what had to be assumed about the version.
    """

    name: str
    version: str
    gpu_memory_utilization: float
    gpu_memory_utilization_flag: str
    graphs_in_budget: bool
    captured: Captured
    nccl_in_budget: bool
    nvlink_in_budget: bool
    counts_reserved: bool
    sampler: Sampler
    second_runner: Literal["none", "dense", "all"]
    second_runner_sampler: bool
    second_runner_graphs: bool
    whole_prompts: bool
    chunk_above: tuple[int, int]
    tokens_as_concurrency: bool
    scheduler_defaults: tuple[SchedulerDefault, ...]
    measured: bool
    source: str
    as_of: str
    sources: dict[str, str]
    assumptions: tuple[Text, ...] = ()
    older: str = ""
    core: str = ""
    most_sequences: int = 0
    first_core: tuple[FallsBack, ...] = ()
    first_core_gone: bool = False
    lora_ranks: tuple[int, ...] = ()
    aligned_latent: bool = False
    materializes_latent: bool = False
    others_in_budget: bool = True
    checks_free: bool = False
    latent_cache: bool = True
    cache_groups: bool = True
    captures_follow_sequences: bool = True
    tokens_within_sequences: bool = False
    sequences_within_tokens: bool = False
    offload: Offload = "none"
    draft_models: bool = True
    shares_draft_embedding: bool = False
    shares_prediction_head: bool = False
    delta_kernels: Literal["none", "first", "tuned", "late"] = "none"
    experts_at_once: int = 0
    experts_padded_to: int = 0

    @property
    def compiles(self) -> bool:
        """Whether torch.compile makes kernels of its steps: vLLM from 0.8 on, where graphs are captured in pieces."""
        return self.name == "vllm" and self.captured != "decode"

    @property
    def label(self) -> str:
        """`vllm==0.32`; the name alone where no version is known."""
        return f"{self.name}=={self.version}" if self.version else self.name

    def scheduler_default(self, memory: int, name: str) -> SchedulerDefault:
        """The defaults for a device of `memory` bytes with this name."""
        for default in self.scheduler_defaults:
            if default.holds_for(memory, name):
                return default
        return self.scheduler_defaults[-1]

    def step_tokens(
        self,
        max_length: int,
        default: SchedulerDefault,
        compute_capability: str | None = None,
        sequences: int | None = None,
        *,
        uncut: bool = False,
    ) -> int:
        """The default of max_num_batched_tokens for `sequences` of up to `max_length` tokens on such a device.

        uncut: the model's prompts are never cut by themselves in versions that take whole ones.
        """
        if not self.whole_prompts:
            most = default.max_num_batched_tokens
            return min(most, sequences * max_length) if self.tokens_within_sequences and sequences else most
        above, chunk = self.chunk_above
        cuts = max_length > above and compute_capability != _NEVER_CUTS and not uncut
        return chunk if cuts else max(max_length, default.max_num_batched_tokens)
