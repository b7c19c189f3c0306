"""What a reader of the figures should know: each with a stable id and the figures that show it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narrows.diagnosis.situation import Situation
from narrows.models.mixers import Attention, LatentAttention
from narrows.text import Text
from narrows.units import MIB, binary, gib

_TELLING = 0.0005
"""Share of the KV cache below which a difference rounds to nothing."""


class Note(msgspec.Struct, frozen=True):
    """A remark: a stable id and a sentence."""

    id: str
    text: Text


def notes_of(s: Situation) -> tuple[Note, ...]:
    """All notes that this start's figures call for."""
    rules = (_shifted, _per_rank, _replicated, _budget, _stated_tokens, _kv_format, _per_token, _unified, _no_law)
    return tuple(note for rule in rules for note in rule(s))


def command_notes(s: Situation) -> tuple[Note, ...]:
    """What the corrected command does not hold of the one that was given."""
    command, found = s.command, []
    if s.seen.engine not in ("vllm", None):
        return ()
    if command.lost:
        found.append(
            Note(
                "flags-not-kept",
                Text(
                    "the corrected command lacks {flags}, whose value the log does not give back as it was: add it",
                    flags=", ".join(command.lost),
                ),
            )
        )
    if command.hidden:
        found.append(
            Note(
                "secrets-not-kept",
                Text(
                    "the corrected command holds no secret: {flags} takes a variable of the shell in its place",
                    flags=", ".join(command.hidden),
                ),
            )
        )
    if command.cut:
        found.append(
            Note(
                "arguments-cut",
                Text("the log shows only the beginning of the arguments: compare the corrected command with your own"),
            )
        )
    return tuple(found)


def _shifted(s: Situation) -> Iterator[Note]:
    if s.law is not None and abs(s.shift) > _TELLING * abs(s.law.kv.value):
        yield Note(
            "shifted",
            Text(
                "this machine has {difference} of KV cache against the prediction ({share} % of it); what changes lead "
                "to is predicted with that difference",
                difference=("+" if s.shift > 0 else "−") + binary(abs(s.shift)),
                share=f"{100 * s.shift / s.law.kv.value:+.1f}" if s.law.kv.value > 0 else "?",
            ),
        )


def _per_rank(s: Situation) -> Iterator[Note]:
    pools = {rank: terms.kv_cache for rank, terms in s.seen.ranks.items() if terms.kv_cache is not None}
    ranks = s.settings.tensor_parallel or 1
    if s.seen.engine == "llama.cpp":
        return
    if len(pools) > 1:
        least, most = min(pools.values()), max(pools.values())
        yield Note(
            "per-rank",
            Text(
                "sizes are per device, not summed: the smallest KV cache decides ({rank}: {least}; the "
                "largest is {most})",
                rank=min(pools, key=lambda rank: pools[rank]),
                least=gib(least),
                most=gib(most),
            ),
        )
    elif ranks > 1:
        yield Note(
            "per-rank",
            Text(
                "sizes are per device, not summed: each of {ranks} ranks holds its part of weights and KV heads",
                ranks=ranks,
            ),
        )


def _replicated(s: Situation) -> Iterator[Note]:
    ranks = s.settings.tensor_parallel or 1
    if s.made.model is None or ranks == 1:
        return
    heads = [
        layer.mixer.kv_heads
        for layer, _ in s.made.model.kinds
        if isinstance(layer.mixer, Attention) and layer.mixer.kv_heads
    ]
    if heads and ranks > max(heads):
        yield Note(
            "kv-replicated",
            Text(
                "{ranks} ranks share {heads} KV heads: KV cache is replicated {times} times, so more ranks hold no "
                "more tokens; beyond {heads} use pipeline or data parallelism",
                ranks=ranks,
                heads=max(heads),
                times=ranks // max(heads),
            ),
        )
    elif any(isinstance(layer.mixer, LatentAttention) for layer, _ in s.made.model.kinds):
        yield Note("kv-replicated", Text("the latent KV cache is whole on every one of {ranks} ranks", ranks=ranks))


def _budget(s: Situation) -> Iterator[Note]:
    """The cache is far larger than the work: a small model fills the card."""
    tokens, length, share = s.seen.kv_tokens, s.length, s.share
    pool, weights = s.terms.kv_cache, s.terms.weights
    if s.seen.engine != "vllm" or s.pool or not (tokens and length and share) or s.seen.outcome == "failed":
        return
    if tokens > 20 * length or (pool is not None and weights is not None and pool > 2 * weights):
        yield Note(
            "pool-is-a-budget",
            Text(
                "the KV cache of {tokens} tokens is what the share of {share} leaves, whatever the model's size: a "
                "lower --gpu-memory-utilization, or --kv-cache-memory-bytes, gives memory back",
                tokens=tokens,
                share=f"{share:g}",
            ),
        )


def _stated_tokens(s: Situation) -> Iterator[Note]:
    tokens, times, length = s.seen.kv_tokens, s.seen.max_concurrency, s.seen.concurrency_length
    if not (tokens and times and length):
        return
    whole = int(times * length)
    if abs(whole - tokens) <= 0.02 * tokens + length * 0.01:
        return
    yield Note(
        "stated-tokens",
        Text(
            "the log's {tokens} tokens are blocks ÷ groups × block size, which for a model with several kinds of "
            "layers is not what requests cost; it holds {times} requests of {length} tokens, {whole} in all",
            tokens=tokens,
            times=f"{times:g}",
            length=length,
            whole=whole,
        ),
    )


def _kv_format(s: Situation) -> Iterator[Note]:
    if s.made.model is None or s.settings.kv_cache_dtype not in (None, "auto"):
        return
    own = s.made.model.precision.kv_cache
    if own is not None:
        yield Note(
            "kv-follows-checkpoint",
            Text(
                "the checkpoint states its own format of KV cache, {format}, and 'auto' follows it; "
                "--kv-cache-dtype bfloat16 keeps 16 bits at {times} times the bytes",
                format=own.name,
                times=16 // own.bits if own.bits else 2,
            ),
        )


def _per_token(s: Situation) -> Iterator[Note]:
    model = s.made.model
    if s.base is None or model is None or len(model.kinds) != 1:
        return
    mixer = model.kinds[0][0].mixer
    if not isinstance(mixer, Attention) or mixer.window is not None:
        return
    rows = mixer.cache()
    ranks = s.base.deployment.tensor_parallel
    width = sum(row.heads_per_rank(ranks) * row.width for row in rows)
    heads = rows[0].heads_per_rank(ranks) if rows else 0
    each = model.layers * width * s.base.deployment.kv.bits // 8
    yield Note(
        "kv-per-token",
        Text(
            "one token takes {size} of KV cache per device: {layers} layers × 2 × {heads} KV heads × {dim} × {bytes} B "
            "(KV heads, not the hidden size of {hidden})",
            size=binary(each),
            layers=model.layers,
            heads=heads,
            dim=mixer.head_dim,
            bytes=f"{s.base.deployment.kv.bits / 8:g}",
            hidden=model.kinds[0][0].hidden,
        ),
    )


def _unified(s: Situation) -> Iterator[Note]:
    if s.unified and not s.on_cpu and s.seen.engine == "vllm":
        yield Note(
            "unified-memory",
            Text("device and host share one memory: the system and the engine's own processes need about 2 GiB of it"),
        )


def _no_law(s: Situation) -> Iterator[Note]:
    """Why nothing is predicted, or how it would be."""
    if s.seen.engine not in ("vllm", "sglang", None):
        yield Note("not-predicted", Text("the memory of {engine} is not predicted yet", engine=s.seen.engine))
    elif s.made.lacks and s.seen.engine != "sglang":
        yield Note("lacks", Text("add {flags} and the start is predicted too", flags=", ".join(s.made.lacks)))
    if s.settings.cpu_offload and s.settings.cpu_offload > MIB:
        yield Note(
            "cpu-offload",
            Text("{size} of weights per device stay in host memory", size=binary(s.settings.cpu_offload)),
        )
