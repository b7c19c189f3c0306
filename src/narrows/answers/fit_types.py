"""The answer of `fit`, as values."""

from __future__ import annotations

import msgspec

from narrows.answers.base import Answer
from narrows.answers.mend import Mend
from narrows.answers.model import ModelFacts
from narrows.answers.verdict import Starts, Verdict
from narrows.memory import Ledger
from narrows.memory.draft import DraftShare
from narrows.quantity import Quantity
from narrows.text import Text


class Moment(msgspec.Struct, frozen=True):
    """Memory of one device at one moment from idle to peak; `used` is all that is taken, bytes."""

    name: str
    used: int
    terms: Ledger


class RuleOfThumb(msgspec.Struct, frozen=True):
    """The rule "start with twice the model's size", held against the device's usable memory."""

    bytes: int
    holds: bool


class Candidate(msgspec.Struct, frozen=True):
    """One deployment: does the load fit, what would at most, what it costs, and how memory grows.

    starts: what this version of the engine does with it. kv_blocks, kv_block_size, kv_tokens, max_concurrency: as its
    log would state them; paged_bytes_per_sequence: one sequence of `length` tokens in whole pages, with the tokens in
    flight that windows keep. serve_command: the engine's own command, with the first mend where it needs one.
    terms: bytes per device on the binding rank, for `batch` sequences of `length` tokens. max_batch: sequences of
    that length; max_length: tokens each of `max_length_batch` sequences can have, the model's limit at most.
    kv_cache_available: bytes per device for KV cache and state, with an 80 % interval. cuda_graphs: bytes per device,
    with the interval that drivers make. log: lines of the engine's log that state its pools (SGLang).
    draft: what drafting takes of the terms, where anything drafts.
    """

    gpu: str
    gpu_name: str
    count: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: str
    gpu_memory_utilization: float
    max_num_seqs: int
    max_num_batched_tokens: int
    fits: bool
    verdict: Verdict
    reason: Text
    batch: int
    length: int
    terms: Ledger
    reserve_basis: tuple[Text, ...]
    max_batch: int
    max_length: int
    max_length_batch: int
    starts: Starts
    kv_tokens: int
    kv_blocks: int
    kv_block_size: int
    paged_bytes_per_sequence: int
    serve_command: str
    kv_cache_available: Quantity
    cuda_graphs: Quantity
    max_concurrency: float
    rule_of_thumb: RuleOfThumb
    usd_per_hour: float | None
    instance: str | None
    price_as_of: str | None
    usd_per_hour_per_sequence: float | None
    growth: tuple[Moment, ...]
    mend: Mend | None
    other_mends: tuple[Mend, ...]
    log: tuple[str, ...] = ()
    expert_parallel: int = 1
    attention_data_parallel: int = 1
    draft: DraftShare | None = None


class Fit(Answer, frozen=True, kw_only=True):
    """The answer of `fit`. warnings: what of the question was left out of it and may change the figures."""

    schema: str = "narrows.fit/1"
    model: ModelFacts
    candidates: tuple[Candidate, ...]
    warnings: tuple[Text, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether any candidate fits."""
        return any(candidate.fits for candidate in self.candidates)
