"""`kv`: what the cache of keys and values costs, and what GQA and MLA make of it."""

from __future__ import annotations

from narrows.answers.explain.subjects import BATCH, LENGTH, attention, model, origin, short
from narrows.answers.explain.types import CHAPTER, Row, Topic, exact, number, row, step, table, words
from narrows.models import ModelSpec, load_model
from narrows.models.mixers import LatentAttention
from narrows.text import Text
from narrows.units import MIB, binary, count, decimal


def _row(spec: ModelSpec, kind: str, name: str) -> Row:
    """KV of a model, against the same heads each with their own keys and values (MHA)."""
    mixer = spec.groups[0].layer.mixer
    width = spec.kv_format().bits // 8
    if isinstance(mixer, LatentAttention):
        own = mixer.heads * (mixer.nope + mixer.rope + mixer.value)
    else:
        own = 2 * attention(spec).heads * attention(spec).head_dim
    token = spec.kv_bytes_per_token(0)
    total = BATCH * spec.kv_bytes_per_sequence(LENGTH)
    times = spec.layers * own * width / token
    return row(
        name,
        words(short(spec)),
        words(kind),
        number(binary(token, 1), token, "B"),
        number(binary(total, 1), total, "B"),
        number(f"÷ {times:.1f}", times, "1"),
    )


def kv() -> Topic:
    """Bytes per token, per request and for 16 × 4096; then the same for grouped-query and latent attention."""
    spec, grouped, latent = model(), load_model("llama-3.1-8b"), load_model("deepseek-v3")
    heads, gqa, mla = attention(spec), attention(grouped), latent.groups[0].layer.mixer
    assert isinstance(mla, LatentAttention)
    width = spec.kv_format().bits // 8
    token, sequence, size = spec.kv_bytes_per_token(0), spec.kv_bytes_per_sequence(LENGTH), spec.checkpoint_bytes()
    total, short_mib = BATCH * sequence, f"{token / MIB:g} MiB"
    grouped_token, latent_token = grouped.kv_bytes_per_token(0), latent.kv_bytes_per_token(0)
    return Topic(
        "kv",
        Text("KV cache: a price per token, per request, per batch"),
        (
            step(
                "per_token",
                Text("Each layer keeps a key and a value of every token, for every KV head:"),
                Text(
                    "2 × {layers} layers × {heads} KV heads × {dim} × {width} B = {token} B = {binary}",
                    layers=spec.layers,
                    heads=heads.kv_heads,
                    dim=heads.head_dim,
                    width=width,
                    token=token,
                    binary=short_mib,
                ),
                exact(token, "B"),
            ),
            step(
                "per_request",
                Text('One request of {length} tokens (the chapter\'s "2048 MB" are MiB):', length=str(LENGTH)),
                f"{count(token)} B × {LENGTH} = {count(sequence)} B = {binary(sequence, 0)}",
                exact(sequence, "B"),
            ),
            step(
                "total",
                Text('{batch} of them at once. The chapter\'s "32 GB" are GiB:', batch=BATCH),
                f"{binary(sequence, 0)} × {BATCH} = {binary(total, 0)} = {decimal(total)}",
                exact(total, "B"),
            ),
            step(
                "against_weights",
                Text("The cache is larger than the model it serves:"),
                f"{decimal(total)} ÷ {decimal(size)} = {total / size:.2f} ×",
                exact(total / size, "1"),
            ),
            step(
                "gqa",
                Text(
                    "Grouped-query attention: {heads} query heads share {kv_heads} KV heads.",
                    heads=gqa.heads,
                    kv_heads=gqa.kv_heads,
                ),
                Text(
                    "2 × {layers} layers × {heads} KV heads × {dim} × {width} B = {token} B",
                    layers=grouped.layers,
                    heads=gqa.kv_heads,
                    dim=gqa.head_dim,
                    width=grouped.kv_format().bits // 8,
                    token=grouped_token,
                ),
                exact(grouped_token, "B"),
            ),
            step(
                "mla",
                Text(
                    "Latent attention: one compressed vector and one rotary key per layer serve all {heads} heads.",
                    heads=mla.heads,
                ),
                Text(
                    "{layers} layers × ({rank} + {rope}) × {width} B = {token} B",
                    layers=latent.layers,
                    rank=mla.kv_rank,
                    rope=mla.rope,
                    width=latent.kv_format().bits // 8,
                    token=latent_token,
                ),
                exact(latent_token, "B"),
            ),
            step(
                "table",
                Text(
                    "Side by side, and against what the same heads would keep with keys and values of their own (MHA):"
                ),
                table=table(
                    (
                        Text("model"),
                        Text("attention"),
                        Text("per token"),
                        Text("{batch} × {length}", batch=BATCH, length=str(LENGTH)),
                        Text("against MHA"),
                    ),
                    _row(spec, "MHA", "mha"),
                    _row(grouped, "GQA", "gqa"),
                    _row(latent, "MLA", "mla"),
                ),
            ),
        ),
        (CHAPTER, *map(origin, (spec, grouped, latent))),
        more="narrows fit llama-2-7b --gpu l40s --batch 16 --max-len 4096",
    )
