"""Pages: how many blocks an engine makes of its KV bytes, and how many requests of a length they hold.

vLLM cuts the layers into groups of equal count that share one pool of blocks; a block holds one page of every layer
of a group, so padding in smaller groups is real waste. Where recurrent state is kept too, the attention block grows
until its page holds one layer's state. Rules as vLLM 0.32 applies them (vllm/v1/core/kv_cache_utils.py, Apache-2.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

import msgspec

from narrows.deployment import Deployment, stages
from narrows.deployment.draft import draft_layers, drafting
from narrows.engines.paging import PagingRules, paging_rules
from narrows.memory.largest import largest
from narrows.memory.pages import LayerPages, PageGroup
from narrows.memory.paging_compressed import compressed_groups, compressed_pages
from narrows.models.mixers import (
    INDEX_KEY,
    Attention,
    Chain,
    CompressedAttention,
    CompressedConvolution,
    ConvolvedAttention,
    CrossAttention,
    GatedRecurrence,
    IndexedAttention,
    LatentAttention,
    Looped,
    Mamba2,
    MatrixMemory,
    Mixer,
    Parallel,
    RememberingAttention,
    Rwkv4,
    Uncached,
)
from narrows.models.tensors import CacheRow
from narrows.precision import FORMATS
from narrows.text import BadInput, Text

_UNKNOWN = (
    CompressedConvolution
    | ConvolvedAttention
    | GatedRecurrence
    | IndexedAttention
    | MatrixMemory
    | RememberingAttention
    | Rwkv4
    | Uncached
)
"""Mixers whose pages no engine was seen to lay out."""


_ALIGNED = 256
"""Bytes at multiples of which versions that align rows of latents begin one."""
_PADDED_HEAD = 256
"""Values of a head that versions without a cache of latents keep of keys, and as many of values."""


class Paging(msgspec.Struct, frozen=True):
    """The layout of one rank's pool.

    block: tokens of a page. page_bytes: one page of one layer. block_bytes: one block of the pool. in_flight: tokens
    that a window keeps beside itself. drafted: tokens per step, after each of which state is kept.
    """

    block: int
    page_bytes: int
    block_bytes: int
    in_flight: int
    groups: tuple[PageGroup, ...]
    drafted: int = 0

    def blocks_per_request(self, length: int) -> int:
        """Blocks that a request of `length` tokens needs, in all groups."""
        return sum(group.number * self._blocks(group.kind, length) for group in self.groups)

    def _blocks(self, kind: LayerPages, length: int) -> int:
        block = kind.block or self.block
        if kind.state_bytes:
            # without attention there is no prefix caching, and a sequence keeps its running state only
            return kind.state_blocks if any(group.kind.token_bytes for group in self.groups) else 1 + self.drafted
        if kind.fixed is not None:
            return -(-kind.fixed // self.block)
        if kind.window is None:
            return -(-length // block)
        if kind.chunked:
            return -(-min(kind.window + self.in_flight, length) // block)
        # one more, since a window rarely begins where a block does
        return -(-min(kind.window - 1 + self.in_flight, length) // block) + 1

    def request_bytes(self, length: int) -> int:
        """Bytes of the pool that a request of `length` tokens takes."""
        return self.blocks_per_request(length) * self.block_bytes

    @property
    def group_count(self) -> int:
        """Groups in all."""
        return sum(group.number for group in self.groups)

    def blocks(self, kv_bytes: int) -> int:
        """Blocks in a pool of `kv_bytes`; the engine keeps one of them as its null block."""
        return max(0, kv_bytes // self.block_bytes)

    def requests(self, kv_bytes: int, length: int) -> int:
        """Requests of `length` tokens that a pool holds at once: all blocks but the null block."""
        return max(0, self.blocks(kv_bytes) - 1) // self.blocks_per_request(length)

    def concurrency(self, kv_bytes: int, length: int) -> float:
        """Requests of `length` tokens that the pool holds, as the engine's log states it."""
        return self.blocks(kv_bytes) / self.blocks_per_request(length)

    def tokens(self, kv_bytes: int, length: int) -> int:
        """The "KV cache size" in tokens that the engine's log states for a longest sequence of `length`."""
        return int(self.concurrency(kv_bytes, length) * length)

    def longest(self, kv_bytes: int, limit: int, batch: int = 1) -> int:
        """Tokens of the longest `batch` requests, up to `limit`, that the pool admits: all but the null block."""
        usable = self.blocks(kv_bytes) - 1
        return largest(limit, lambda length: batch * self.blocks_per_request(length) <= usable)


def paging(deployment: Deployment, stage: int = 0) -> Paging:
    """The layout of one rank of a pipeline stage."""
    rules = paging_rules(deployment.engine.name, "cpu" if deployment.accelerator.is_cpu else "cuda")
    layers = stages(deployment.model.layers, deployment.pipeline_parallel)[stage]
    counts: Counter[LayerPages] = Counter()
    for layer, indices in deployment.model.kinds:
        # indices ascend
        here = bisect_left(indices, layers.stop) - bisect_left(indices, layers.start)
        for kind in layer_pages(layer.mixer, deployment, rules):
            if not deployment.engine.cache_groups:
                kind = msgspec.structs.replace(kind, window=None, chunked=False)
            counts[kind] += here
    if layers.stop == deployment.model.layers:
        for layer, here in draft_layers(deployment):
            # one group of windows and one without: the draft's kinds are laid out with those of the target
            for kind in layer_pages(layer.mixer, drafting(deployment), rules):
                counts[kind] += here
    counts = +counts
    if not counts:
        if any(deployment.model.cache_rows()):
            raise BadInput(
                "--pp leaves a stage whose layers only read keys and values of another one; use --tp instead"
            )
        raise BadInput(
            "this model keeps no keys and values of its own: it drafts for another one, and is served with it only"
        )
    return lay_out(counts, rules, deployment.kv.bits, deployment.max_num_batched_tokens, _drafted(deployment))


def _drafted(deployment: Deployment) -> int:
    """Tokens that are drafted per step: state is kept as it is after each of them."""
    return deployment.draft.tokens if deployment.draft is not None else 0


def layer_pages(mixer: Mixer, deployment: Deployment, rules: PagingRules) -> list[LayerPages]:
    """What one layer with this mixer keeps on one rank: cache and constant state apart, nothing where it has none."""
    if isinstance(mixer, Chain):
        return [kind for part in mixer.parts for kind in layer_pages(part, deployment, rules)]
    tp, kv_bytes, engine = deployment.tensor_parallel, deployment.kv.bits // 8, deployment.engine.name
    if isinstance(mixer, CompressedAttention):
        return compressed_pages(mixer, engine, deployment.accelerator.is_cpu)
    unknown = _unpaged(mixer, deployment.model.family)
    if unknown is not None:
        raise BadInput(
            "how {engine} pages {what} is not known, so narrows does not say how many sequences fit; 'narrows models' "
            "tells what one keeps",
            engine=engine,
            what=unknown,
        )
    if isinstance(mixer, LatentAttention) and not deployment.engine.latent_cache:
        heads = max(1, mixer.heads // tp)
        return [LayerPages(2 * heads * _PADDED_HEAD * kv_bytes)]
    found = []
    # what is kept of the encoder's tokens has pages of its own
    for rows in ([row for row in mixer.cache() if row.encoder is side] for side in (False, True)):
        token = sum(_token_bytes(row, tp, kv_bytes) for row in rows)
        if not token:
            continue
        latent, indexed = isinstance(mixer, LatentAttention), len(rows) > 2
        if latent and deployment.engine.aligned_latent and deployment.accelerator.vendor == "nvidia":
            token = -(-token // _ALIGNED) * _ALIGNED
        window, chunked = rows[0].window, rows[0].chunked
        found.append(
            LayerPages(
                token,
                window,
                latent=latent,
                indexed=indexed,
                chunked=chunked,
                encoder=rows[0].encoder,
                fixed=rows[0].fixed,
            )
        )
    state = _state_bytes(mixer, deployment, rules)
    if state:
        recurrent = mixer.recurrent if isinstance(mixer, Parallel) else mixer
        pages = rules.mamba2_state_blocks if isinstance(recurrent, Mamba2) else rules.state_blocks
        pages += _drafted(deployment)
        found.append(LayerPages(0, state_bytes=state, state_blocks=pages))
    return found


def _unpaged(mixer: Mixer, family: str) -> Text | None:
    """What an engine's pages are not known for, in words."""
    if isinstance(mixer, _UNKNOWN) or (isinstance(mixer, Attention) and mixer.value_dim not in (0, mixer.head_dim)):
        return Text("the cache of {family}", family=family)
    if isinstance(mixer, CrossAttention) and not mixer.cached:
        return Text("the cache of {family}", family=family)
    if isinstance(mixer, Looped):
        return Text("layers that run several times for a token")
    if isinstance(mixer, LatentAttention) and mixer.index_pool:
        return Text("the cache of {family}", family=family)
    if isinstance(mixer, LatentAttention) and mixer.window is not None:
        return Text("latent attention over a window")
    if isinstance(mixer, Attention) and mixer.prompt:
        return Text("a learned prompt before every sequence")
    return None


def _token_bytes(row: CacheRow, tp: int, kv_bytes: int) -> int:
    """Bytes of one token; an indexer's key is kept in FP8 whatever the cache is, with a float32 scale per 128."""
    if row.name == INDEX_KEY:
        return row.width + 4 * -(-row.width // 128)
    return row.heads_per_rank(tp) * row.width * kv_bytes


def _state_bytes(mixer: Mixer, deployment: Deployment, rules: PagingRules) -> int:
    """Engines keep kernel − 1 inputs, since the newest arrives with the token; recurrent state in `state_format`.

    One more input for each drafted token (vLLM's MambaStateShapeCalculator, Apache-2.0, num_spec).
    """
    tp, total = deployment.tensor_parallel, 0
    state = FORMATS[rules.state_format] if rules.state_format else deployment.dtype
    for row in mixer.state():
        elements = row.elements // min(tp, row.shards)
        if row.kernel:
            total += deployment.dtype.bytes_for(elements // row.kernel * (row.kernel - 1 + _drafted(deployment)))
        else:
            total += (FORMATS[row.asked] if row.asked else state).bytes_for(elements)
    return total


def _filling(kind: LayerPages, page: int, block: int) -> LayerPages:
    """The kind with as many tokens in a page as it holds, where that comes out even."""
    if not kind.token_bytes or kind.token_bytes * block >= page or page % (kind.token_bytes * block):
        return kind
    return msgspec.structs.replace(kind, block=page // kind.token_bytes)


def lay_out(
    counts: Counter[LayerPages], rules: PagingRules, kv_bits: int, max_num_batched_tokens: int, drafted: int = 0
) -> Paging:
    """Group the layers of one rank (kind → how many) and size its blocks. drafted: tokens per step.

    Groups hold as many layers as the rarest kind has, unless the commonest has hardly more (below 1.25 times):
    then as many as that. Where all keep whole sequences, there is one group, in which every layer has pages of its own
    size (vLLM's UniformTypeKVCacheSpecs; older versions share blocks out in proportion, which comes to the same).
    """
    in_flight = max_num_batched_tokens * rules.in_flight
    if any(kind.group for kind in counts):
        block, page, whole, own = compressed_groups(counts)
        return Paging(block, page, whole, in_flight, own)
    tokens = [kind for kind in counts if kind.token_bytes]
    block = max((kind.usual_block(rules, kv_bits) for kind in tokens), default=rules.block)
    state = max((kind.state_bytes for kind in counts), default=0)
    page = max((kind.token_bytes * block for kind in tokens), default=state)
    if state and tokens:
        per_token = max(kind.token_bytes for kind in tokens)
        block = max(block, -(-state // (per_token * rules.align)) * rules.align)
        page = per_token * block
    if drafted and not all(kind.whole for kind in counts):
        # a page of fewer bytes per token holds more tokens (vLLM's unify_kv_cache_spec_page_size)
        counts = Counter({_filling(kind, page, block): number for kind, number in counts.items()})
    if len(counts) > 1 and all(kind.whole for kind in counts):
        total = sum(number * kind.token_bytes for kind, number in counts.items()) * block
        one = PageGroup(1, sum(counts.values()), max(counts, key=lambda kind: kind.token_bytes))
        return Paging(block, page, total, in_flight, (one,), drafted)
    fewest, most = min(counts.values()), max(counts.values())
    size = most if most < fewest * 1.25 else fewest
    groups = []
    for kind, count in counts.items():
        number = -(-count // size)
        groups.append(PageGroup(number, -(-count // number), kind))
    return Paging(
        block=block,
        page_bytes=page,
        block_bytes=page * max(group.layers for group in groups),
        in_flight=in_flight,
        groups=tuple(groups),
        drafted=drafted,
    )
