"""Small kernels beside a mixer's core: norms of heads and latents, rotation with the write to the cache, choices.

Each is a kernel of its own in a compiled engine too: a norm sums over its row first, so that what rotates waits for it,
and latency is most of what each takes. TensorRT-LLM has one kernel for norms of heads and rotation.
"""

from __future__ import annotations

from narrows.models.mixers import Attention, LatentAttention
from narrows.models.tensors import CacheRow
from narrows.step.kernels import Kernel, Streaming
from narrows.step.site import Site, own_heads


def written(rows: list[CacheRow], site: Site, encoder: bool = False) -> int:
    """Bytes that a new token adds to the cache on one rank (an entry of several tokens: its part)."""
    bits = site.deployment.kv.bits
    return sum(
        row.heads_per_rank(site.tp) * row.width * bits // (8 * (1 if row.waiting else row.every))
        for row in rows
        if row.encoder == encoder
    )


def over(name: str, site: Site, width: int, kv_writes: int = 0) -> Streaming:
    """One pass over `width` elements of each token, read and written."""
    moved = width * site.element
    return Streaming(name, "tokens", width, moved, moved, site.base.precision, kv_writes=kv_writes)


def rope(name: str, site: Site, width: int, cache: list[CacheRow]) -> Streaming:
    """Rotation and the write to the cache: one pass over queries and keys."""
    return over(name, site, width, written(cache, site))


def head_norms(name: str, mixer: Attention, site: Site) -> list[Kernel]:
    """Norms of queries and of keys, where the model has them; borrowed keys were normed by their owner."""
    if not (mixer.qk_norm or mixer.qk_norm_across):
        return []
    made: list[Kernel] = [over(f"{name}.query.norm", site, own_heads(mixer.heads, site) * mixer.head_dim)]
    if not mixer.borrowed:
        made.append(over(f"{name}.key.norm", site, own_heads(mixer.kv_heads, site) * mixer.head_dim))
    return made


def latent_norms(mixer: LatentAttention, site: Site) -> list[Kernel]:
    """Norms of the compressed query and of the latent, whole on every rank."""
    made: list[Kernel] = [over("mla.query.norm", site, mixer.q_rank)] if mixer.q_rank else []
    return [*made, over("mla.latent.norm", site, mixer.kv_rank)]


def index_kernels(name: str, site: Site, heads: int, dim: int, top: int) -> list[Kernel]:
    """What an indexer does beside its products and scores: norm of its key, rotation, the choice of the `top` best.

    The scores that it chooses from are not counted as traffic: they were just written.
    """
    return [
        over(f"{name}.norm", site, dim),
        over(f"{name}.rope", site, (heads + 1) * dim),
        over(f"{name}.choose", site, top),
    ]
