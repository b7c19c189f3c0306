"""Prefill of a prompt and a decode step, as the engine runs them: one step, or as many as the prompt is cut into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from narrows.deployment import MOST_LENGTH, Deployment
from narrows.memory import capacity, reserve, shards
from narrows.memory.ledger import binding, pool_of
from narrows.models import ModelSpec
from narrows.roofline.estimate import Estimator
from narrows.roofline.timed import Cause, StepEstimate
from narrows.step import Batch, Chunk, Operator
from narrows.text import BadInput

MOST_STEPS = 8
"""Equal steps of one long prompt are told apart in at most so many groups."""


class Served(Estimator):
    """A deployment whose steps are estimated, with how many sequences its memory holds, each length worked out once."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._held: dict[int, int] = {}

    def held(self, length: int) -> int:
        """Sequences of `length` tokens in memory: see `held`."""
        if length not in self._held:
            self._held[length] = held(self.deployment, length)
        return self._held[length]


def held(deployment: Deployment, length: int) -> int:
    """Sequences of `length` tokens in memory, whatever max_num_seqs is; 0 where the weights do not fit.

    By bytes alone where nobody knows how the engine pages the model's cache.
    """
    one = msgspec.structs.replace(deployment, max_length=length)
    try:
        return max(0, capacity(one).in_memory)
    except BadInput:
        kept = reserve(one)
        shard = binding(one, shards(one), kept)
        pool, each = pool_of(one, shard, kept), shard.sequence_bytes(length)
        # a model without cache and state is as large with one sequence as with many
        return max(0, pool // each) if each else MOST_LENGTH * (pool >= 0)


class Load(msgspec.Struct, frozen=True):
    """What is asked of a deployment: tokens of a prompt; sequences and cached tokens of a decode step."""

    prompt: int
    batch: int
    context: int

    @property
    def length(self) -> int:
        """Tokens that a sequence has at most."""
        return max(self.prompt, self.context)


class PhaseTime(msgspec.Struct, frozen=True):
    """Steps of a phase (how often, and one of them), and seconds of all together with an 80 % interval.

    The errors of the steps of one prompt are alike, so that their intervals add up.
    """

    steps: tuple[tuple[int, StepEstimate], ...]
    time: float
    low: float
    high: float

    @property
    def count(self) -> int:
        """Steps in all."""
        return sum(times for times, _ in self.steps)

    @property
    def shares(self) -> dict[Cause, float]:
        """Cause → seconds; they add up to `time`."""
        found: dict[Cause, float] = {}
        for times, step in self.steps:
            for cause, seconds in step.shares.items():
                found[cause] = found.get(cause, 0.0) + times * seconds
        return found

    @property
    def bound(self) -> Cause:
        """The cause with the largest share."""
        shares = self.shares
        return max(shares, key=lambda cause: shares[cause])

    @property
    def operators(self) -> Iterator[tuple[int, Operator]]:
        """(how often its step is run, operator)."""
        return ((times, one.operator) for times, step in self.steps for one in step.operators)

    @property
    def flops(self) -> int:
        """FLOPs of one rank."""
        return sum(
            times * one.operator.count * one.operator.flops for times, step in self.steps for one in step.operators
        )

    @property
    def bytes(self) -> int:
        """Traffic to the device memory of one rank."""
        return sum(
            times * one.operator.count * one.operator.bytes for times, step in self.steps for one in step.operators
        )


def _timed(steps: list[tuple[int, StepEstimate]]) -> PhaseTime:
    return PhaseTime(
        tuple(steps),
        sum(times * step.time for times, step in steps),
        sum(times * step.low for times, step in steps),
        sum(times * step.high for times, step in steps),
    )


def decode(steps: Served, batch: int, context: int, new: int = 1) -> PhaseTime:
    """One step of `batch` sequences with `context` cached tokens; new > 1: drafted tokens that are verified with it."""
    return _timed([(1, steps.estimate(Batch((Chunk(batch, new, context),))))])


def prefill(steps: Served, prompt: int, cached: int = 0) -> PhaseTime:
    """One prompt of `prompt` tokens of which `cached` are there already, in steps of max_num_batched_tokens."""
    pieces = chunks(steps.deployment, prompt, cached)
    return _timed([(times, steps.estimate(Batch((chunk,)))) for times, chunk in pieces])


def encoded(model: ModelSpec) -> bool:
    """Whether prompts go to an encoder that reads as many tokens as it is given; the decoder starts with one."""
    return any(row.encoder and row.fixed is None for _, row in model.cache_rows())


def whole_prompt(deployment: Deployment, prompt: int) -> Batch:
    """One prompt in one step."""
    return Batch((Chunk(1, 1, encoder=prompt),)) if encoded(deployment.model) else Batch.prefill(prompt)


def chunks(deployment: Deployment, prompt: int, cached: int = 0) -> Iterator[tuple[int, Chunk]]:
    """The pieces of a prompt, and how often each. An encoder reads it whole.

    Of many equal ones, neighbours are taken together at the middle of their cached tokens: work is affine in these
    but for the edges of windows.
    """
    if encoded(deployment.model):
        yield 1, Chunk(1, 1, encoder=prompt)
        return
    most = deployment.max_num_batched_tokens
    whole, rest = divmod(prompt - cached, most)
    if not rest:
        whole, rest = whole - 1, most
    groups = min(whole, MOST_STEPS)
    for group in range(groups):
        start, stop = group * whole // groups, (group + 1) * whole // groups
        yield stop - start, Chunk(1, most, cached + (start + stop - 1) * most // 2, sampled=False)
    yield 1, Chunk(1, rest, cached + whole * most)


def main_precision(operators: Iterable[tuple[int, Operator]]) -> str:
    """The precision that most FLOPs are done in."""
    done: dict[str, int] = {}
    for times, one in operators:
        done[one.precision] = done.get(one.precision, 0) + times * one.count * one.flops
    return max(done, key=lambda name: done[name])
