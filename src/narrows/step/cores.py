"""What a mixer does beside its projections: attention over what it sees, or a recurrence. One rule for each type.

A mixer without a rule is refused: nothing is left out silently.
"""

from __future__ import annotations

from typing import Any

from narrows.deployment.share import pieces, state_bytes
from narrows.models.mixers import (
    Attention,
    CompressedAttention,
    CompressedConvolution,
    ConvolvedAttention,
    CrossAttention,
    GatedDeltaNet,
    GatedRecurrence,
    IndexedAttention,
    KimiDelta,
    LatentAttention,
    Lightning,
    Looped,
    Mamba,
    Mamba2,
    MatrixMemory,
    MixtureOfAttention,
    NoMixer,
    RememberingAttention,
    Rwkv4,
    ShortConvolution,
    Uncached,
)
from narrows.step.arithmetic import plain
from narrows.step.kernels import AttentionKernel, Kernel, MatMul, ScanKernel, Streaming
from narrows.step.load import Sight
from narrows.step.operators import Phase
from narrows.step.site import Site, own_heads
from narrows.step.small import head_norms, index_kernels, latent_norms, over, rope, written
from narrows.text import BadInput

PHASES: tuple[Phase, ...] = ("prefill", "decode")
ABSORBED = ("mla.absorb_k", "mla.absorb_v")
"""Products that take the place of keys and values: of the queries before attention, of its output after it."""


def _pair_bytes(site: Site, keys: int, values: int) -> int:
    """Bytes of a key of so many elements and a value, as the cache holds them."""
    deployment = site.deployment
    return (keys * deployment.kv.bits + values * (deployment.kv_v or deployment.kv).bits) // 8


def _softmax(
    name: str,
    site: Site,
    sight: Sight,
    heads: int,
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    weights: int = 0,
    pair_bytes: int = 0,
) -> list[Kernel]:
    """One kernel per phase; heads are of the whole model. pair_bytes: of a cached key and value, if not as wide."""
    q, kv = own_heads(heads, site), own_heads(kv_heads, site)
    return [
        AttentionKernel(
            name,
            phase,
            sight,
            q,
            kv,
            key_dim,
            value_dim,
            site.attention.precision,
            site.deployment.kv.bits,
            kv * (pair_bytes or _pair_bytes(site, key_dim, value_dim)),
            site.element,
            weights=weights,
            naive=site.naive,
        )
        for phase in PHASES
    ]


def _attention(mixer: Attention, site: Site, weights: int, name: str = "attention", **sight: Any) -> list[Kernel]:
    value = mixer.value_dim or mixer.head_dim
    # differential attention: two softmaxes over values twice as wide, taken as they lie in the cache
    seen_value = 2 * value if any(".lambda_" in tensor.role for tensor in mixer.beside) else value
    q, kv = own_heads(mixer.heads, site), own_heads(mixer.kv_heads, site)
    width = q * mixer.head_dim + (0 if mixer.borrowed else kv * mixer.head_dim)
    seen = Sight(mixer.window or 0, mixer.chunked, before=mixer.prompt, **sight)
    return [
        *head_norms(name, mixer, site),
        rope(f"{name}.rope", site, width, mixer.cache()),
        *_softmax(
            f"{name}.core",
            site,
            seen,
            mixer.heads,
            mixer.kv_heads,
            mixer.head_dim,
            seen_value,
            weights,
            _pair_bytes(site, mixer.head_dim, value),
        ),
    ]


def _indexer(name: str, site: Site, heads: int, dim: int, every: int = 1, weighted: int = 1) -> list[Kernel]:
    """Scores of the indexer's queries against its keys, whole on every rank.

    weighted: 1 where the scores of all heads are summed up with a weight for each (MiniMax M3 takes the largest).
    """
    bits = site.deployment.kv.bits
    return [
        AttentionKernel(
            name,
            phase,
            Sight(every=every),
            heads,
            1,
            dim,
            weighted,
            site.attention.precision,
            bits,
            dim * bits // 8,
            site.element,
        )
        for phase in PHASES
    ]


def _latent(mixer: LatentAttention, site: Site, weights: int, up: Kernel | None, up_bytes: int) -> list[Kernel]:
    """Prefill makes keys and values of all tokens in sight; decode multiplies queries and outputs instead (absorbed).

    With an indexer both phases are absorbed, since every query has keys of its own (vLLM's sparse MLA).
    up: the product that makes keys and values; up_bytes: of its weights as the absorbed products read them.
    """
    heads, element = own_heads(mixer.heads, site), site.element
    wide = mixer.kv_rank + mixer.rope
    sight = Sight(mixer.window or 0, top=mixer.index_top_k)
    absorbed = bool(mixer.index_heads or mixer.index_top_k)
    made: list[Kernel] = [
        *latent_norms(mixer, site),
        rope("mla.rope", site, heads * mixer.rope + wide, mixer.cache()),
    ]
    if mixer.index_heads:
        made += index_kernels("mla.index", site, mixer.index_heads, mixer.index_dim, mixer.index_top_k)
        made += _indexer("mla.index", site, mixer.index_heads, mixer.index_dim)
    if up is not None and not absorbed:
        made.append(up)
        made.append(
            AttentionKernel(
                "mla.core",
                "prefill",
                sight,
                heads,
                heads,
                mixer.nope + mixer.rope,
                mixer.value,
                plain(site.deployment.accelerator, site.deployment.dtype).precision,
                site.deployment.kv.bits,
                0,
                element,
                from_cache=False,
                key_wide=heads * (mixer.nope + mixer.value) + mixer.rope,
                weights=weights,
                naive=site.naive,
            )
        )
    rows = "tokens" if absorbed else "decode"
    halves = mixer.nope + mixer.value
    for name, k, n in zip(ABSORBED, (mixer.nope, mixer.kv_rank), (mixer.kv_rank, mixer.value), strict=True):
        held = up_bytes * (mixer.nope if name == ABSORBED[0] else mixer.value) // halves
        made.append(
            MatMul(
                name,
                rows,  # type: ignore[arg-type]
                k,
                n,
                site.base.precision,
                held,
                element,
                float(8 * element),
                site.base.activation_bits,
                copies=heads,
            )
        )
    made[-1:-1] = [
        AttentionKernel(
            "mla.core",
            phase,
            sight,
            heads,
            1,
            wide,
            mixer.kv_rank,
            site.attention.precision,
            site.deployment.kv.bits,
            wide * site.deployment.kv.bits // 8,
            element,
            latent=True,
            weights=weights,
            naive=site.naive,
        )
        for phase in (PHASES if absorbed else ("decode",))
    ]
    return made


def _compressed(mixer: CompressedAttention, site: Site, weights: int) -> list[Kernel]:
    """Keys of the window and compressed entries in one softmax: their pairs and bytes stand in two kernels."""
    heads, bits = own_heads(mixer.heads, site), site.deployment.kv.bits
    made: list[Kernel] = [rope("csa.rope", site, heads * mixer.rope + mixer.head_dim, mixer.cache())]
    if mixer.overlap:
        made += index_kernels("csa.index", site, mixer.index_heads, mixer.index_dim, mixer.index_top_k)
        made += _indexer("csa.index", site, mixer.index_heads, mixer.index_dim, mixer.rate)
    sights = [("csa.core", Sight(mixer.window))]
    if mixer.rate:
        top = mixer.index_top_k if mixer.overlap else 0
        sights.append(("csa.entries", Sight(every=mixer.rate, top=top)))
    for name, sight in sights:
        made += [
            AttentionKernel(
                name,
                phase,
                sight,
                heads,
                1,
                mixer.head_dim,
                mixer.head_dim,
                site.attention.precision,
                bits,
                mixer.head_dim * bits // 8,
                site.element,
                latent=True,
                weights=weights if name == "csa.core" else 0,
                naive=site.naive,
            )
            for phase in PHASES
        ]
    return made


_DECAY, _MULTIPLY_ADD = 1, 2


def _scan(mixer: Any, site: Site, weights: int) -> list[Kernel]:
    """A recurrence, token by token: for every element of the state a decay, an outer product added, and a read-out
    (5 FLOPs); the delta rule also reads what the key finds first (7). A convolution: 2 FLOPs per channel and tap.

    The convolution before it and the norm of its output are kernels of their own, whose FLOPs and state count here.
    """
    tp = site.tp
    state = mixer.state()
    recurrent = sum(pieces(row.elements, row.shards, tp) for row in state if row.name.startswith("recurrent"))
    taps = sum(pieces(row.elements, row.shards, tp) for row in state if row.kernel)
    each = _DECAY + _MULTIPLY_ADD * (3 if isinstance(mixer, GatedDeltaNet | KimiDelta) else 2)
    if isinstance(mixer, GatedRecurrence):
        name, wide = "lru.scan", pieces(mixer.width, mixer.heads, tp)
        taps = wide * mixer.conv
    elif isinstance(mixer, Rwkv4):
        name, wide = "rwkv.scan", pieces(mixer.width, mixer.width, tp)
    elif isinstance(mixer, MatrixMemory):
        name, wide = "mlstm.scan", pieces(mixer.heads * mixer.value_dim, mixer.heads, tp)
    elif isinstance(mixer, Lightning):
        name, wide = "lightning.scan", pieces(mixer.heads * mixer.head_dim, mixer.heads, tp)
    elif isinstance(mixer, ShortConvolution):
        name, wide = "conv.scan", pieces(mixer.hidden, mixer.hidden, tp)
    elif isinstance(mixer, KimiDelta):
        name, wide = "delta.scan", pieces(mixer.heads * mixer.head_dim, mixer.heads, tp)
    elif isinstance(mixer, GatedDeltaNet):
        name, wide = "delta.scan", pieces(mixer.value_heads * mixer.value_dim, mixer.key_heads, tp)
    else:
        heads = mixer.heads or mixer.inner
        inner = mixer.heads * mixer.head_dim if isinstance(mixer, Mamba2) else mixer.inner
        name, wide = "mamba.scan", pieces(inner, heads, tp)
    part = name.removesuffix(".scan")
    before: list[Kernel] = [over(f"{part}.convolution", site, wide)] if taps and recurrent else []
    normed = isinstance(mixer, GatedDeltaNet | KimiDelta | Mamba2)
    return [
        *before,
        ScanKernel(
            name,
            sum(pieces(row.elements, row.shards, tp) for row in state),
            sum(state_bytes(row, site.deployment) for row in state),
            each * recurrent + _MULTIPLY_ADD * taps,
            3 * wide,
            wide,
            site.base.precision,
            site.element,
            weights,
        ),
        *([over(f"{part}.output.norm", site, wide)] if normed else []),
    ]


_SCANS = (
    Mamba,
    Mamba2,
    GatedDeltaNet,
    KimiDelta,
    Lightning,
    ShortConvolution,
    GatedRecurrence,
    Rwkv4,
    MatrixMemory,
)


def core(mixer: Any, site: Site, weights: int, up: Kernel | None = None, up_bytes: int = 0) -> list[Kernel]:
    """Kernels of one mixer beside its products; weights: bytes of its small parameters. Raises BadInput without a rule.

    up, up_bytes: of latent attention, see `_latent`.
    """
    if isinstance(mixer, Attention):
        return _attention(mixer, site, weights)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, site, weights, up, up_bytes)
    if isinstance(mixer, _SCANS):
        return _scan(mixer, site, weights)
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer, site, weights)
    if isinstance(mixer, Looped):
        return core(mixer.attention, site, weights)
    if isinstance(mixer, IndexedAttention):
        index = _indexer("attention.index", site, mixer.index_heads, mixer.index_dim, weighted=0)
        made = _attention(mixer.attention, site, weights, top=mixer.index_top_k)
        small = index_kernels("attention.index", site, mixer.index_heads, mixer.index_dim, mixer.index_top_k)
        return [*small, *index, *made]
    if isinstance(mixer, ConvolvedAttention | CompressedConvolution):
        return _attention(mixer.attention, site, weights)
    if isinstance(mixer, MixtureOfAttention):
        heads = mixer.kv_heads * mixer.top_k
        width = (own_heads(heads, site) + own_heads(mixer.kv_heads, site)) * mixer.head_dim
        return [
            rope("attention.rope", site, width, mixer.cache()),
            *_softmax("attention.core", site, Sight(), heads, mixer.kv_heads, mixer.head_dim, mixer.head_dim, weights),
        ]
    if isinstance(mixer, CrossAttention):
        seen = Sight(encoder=True, fixed=mixer.tokens or 0)
        kv = written(mixer.cache(), site, encoder=True)
        moved = kv * 8 // site.deployment.kv.bits * site.element
        return [
            Streaming(
                "cross.cache", "encoder", kv, moved, 0, site.base.precision, kv_writes=kv, fixed=mixer.tokens or 0
            ),
            *_softmax("cross.core", site, seen, mixer.heads, mixer.kv_heads, mixer.head_dim, mixer.head_dim, weights),
        ]
    if isinstance(mixer, Uncached):
        return _attention(mixer.attention, site, weights, both_ways=True)
    if isinstance(mixer, RememberingAttention):
        sight = Sight(mixer.memory or 0)
        own, dim = mixer.heads, mixer.head_dim
        return [
            rope("attention.rope", site, own_heads(own, site) * dim, mixer.cache()),
            *_softmax("attention.core", site, sight, own, own, dim, dim, weights),
        ]
    if isinstance(mixer, NoMixer):
        return []
    raise BadInput("narrows has no rule yet for what a step of '{mixer}' costs", mixer=type(mixer).__name__)
