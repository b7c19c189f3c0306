"""SGLang's memory law: a static share for weights and token pools, and the rest of the memory for everything else.

pool = memory free before loading × mem_fraction_static − weights. Its tokens cost as much as every layer keeps of one;
layers with windows may have a pool of their own with a part of the tokens, and constant state has one with a part of
the bytes. Activations and CUDA graphs lie outside the share. Source: SGLang (Apache-2.0), as `engines/data/sglang.json`
says. What is free before loading and what loading takes beside the tensors are estimates.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.calibration import Coefficients, coefficients
from narrows.deployment import Deployment, stages
from narrows.engines import held_at
from narrows.engines.sglang import captured_batches, sglang_facts, version_of
from narrows.memory.activations import dense_elements, expert_elements
from narrows.memory.draft import draft_told, drafting_layers
from narrows.memory.largest import largest
from narrows.memory.reserve import Reserve
from narrows.models.mixers import (
    INDEX_KEY,
    Attention,
    GatedDeltaNet,
    KimiDelta,
    LatentAttention,
    Mamba2,
    Mixer,
    NoMixer,
    Parallel,
)
from narrows.models.tensors import CacheRow
from narrows.precision import FORMATS
from narrows.text import BadInput, Text
from narrows.units import binary

_FP8_LATENT = 128
"""Values of a sparse model's FP8 latent that share one float32 scale; its rotary key stays in 16 bits."""


_MARGIN = 512 * 2**20
"""What SGLang takes off for what its attention keeps, in any case (`Reserved.least`)."""


class TokenPools(msgspec.Struct, frozen=True):
    """The pools of one rank, with the questions that an engine's pages answer.

    whole: bytes of one token in layers that keep whole sequences. windowed: in layers that have a pool of their own,
    which holds `ratio` tokens for one of the other, each request at most `window` of them. state: bytes of one
    request's constant state; state_ratio: its pool's bytes per byte of the others; slots: of it per running request;
    padding: slots that no request uses. page: tokens. most: tokens at most, where the user says so (0: none).
    keys, window_keys: of `whole` and of `windowed`, what keys take (0: keys and values are one). drafted: bytes
    per token that are set aside for what drafts.
    """

    whole: int
    windowed: int
    window: int
    ratio: float
    state: int
    state_ratio: float
    slots: int
    padding: int
    page: int
    most: int
    keys: int = 0
    window_keys: int = 0
    drafted: int = 0

    @property
    def block(self) -> int:
        """Tokens of a page."""
        return self.page

    @property
    def block_bytes(self) -> int:
        """Bytes of a page of all pools of tokens."""
        return max(1, int(self._each * self.page))

    @property
    def group_count(self) -> int:
        """Pages are of one kind."""
        return 1

    @property
    def _each(self) -> float:
        """Bytes of one token of `max_total_num_tokens`."""
        return self.whole + self.drafted + self.ratio * self.windowed if self.whole else self.windowed

    def state_slots(self, kv_bytes: int) -> int:
        """Slots of constant state in pools of so many bytes ("max_mamba_cache_size")."""
        if not self.state:
            return 0
        part = kv_bytes * self.state_ratio / (1 + self.state_ratio)
        return max(0, int(part // self.state) - self.padding)

    def tokens(self, kv_bytes: int, length: int = 0) -> int:
        """Tokens of the pool, as the log states them ("max_total_num_tokens")."""
        slots = self.state_slots(kv_bytes)
        left = kv_bytes - (slots + self.padding) * self.state if self.state else kv_bytes
        found = int(left // self._each) if self._each else 0
        if self.most:
            found = min(found, self.most)
        return max(0, found // self.page * self.page)

    def window_tokens(self, kv_bytes: int) -> int:
        """Tokens of the pool of windows ("swa_layer_tokens"); 0 where there is none."""
        if not (self.windowed and self.whole):
            return self.tokens(kv_bytes) if self.windowed else 0
        return int(self.tokens(kv_bytes) * self.ratio) // self.page * self.page

    def _kept(self, length: int) -> int:
        """Tokens of whole pages."""
        return -(-length // self.page) * self.page

    def request_bytes(self, length: int) -> int:
        """Bytes of all pools that a request of `length` tokens takes."""
        seen = min(length, self.window + self.page)
        return (
            self._kept(length) * (self.whole + self.drafted)
            + self._kept(seen) * self.windowed
            + self.slots * self.state
        )

    def blocks(self, kv_bytes: int) -> int:
        """Pages of the pool."""
        return self.tokens(kv_bytes) // self.page

    def blocks_per_request(self, length: int) -> int:
        """Pages that a request of `length` tokens takes."""
        return self._kept(length) // self.page

    def requests(self, kv_bytes: int, length: int) -> int:
        """Requests of `length` tokens that the pools hold at once."""
        return int(self.concurrency(kv_bytes, length))

    def concurrency(self, kv_bytes: int, length: int) -> float:
        """The same as a fraction: of the pool that holds the fewest."""
        kept = max(1, self._kept(length))
        found = [self.tokens(kv_bytes) / kept]
        if self.windowed and self.whole:
            found.append(self.window_tokens(kv_bytes) / max(1, self._kept(min(length, self.window + self.page))))
        if self.state:
            found.append(float(self.state_slots(kv_bytes) // self.slots))
        return min(found)

    def longest(self, kv_bytes: int, limit: int, batch: int = 1) -> int:
        """Tokens of the longest `batch` requests, up to `limit`."""
        return largest(limit, lambda length: self.requests(kv_bytes, length) >= batch)


def token_pools(deployment: Deployment, stage: int) -> TokenPools:
    """The pools on one rank of a pipeline stage. Raises BadInput for caches that SGLang's pools are not known for."""
    facts, version = sglang_facts(), version_of(deployment.engine)
    layers = stages(deployment.model.layers, deployment.pipeline_parallel)[stage]
    if deployment.model.family in held_at(facts.miscounted, version).value:
        raise BadInput(
            "{engine} counts the cache of {family} twice where it sizes its pools; name a newer version, such as "
            "sglang=={newest}",
            engine=deployment.engine.label,
            family=deployment.model.family,
            newest=facts.newest,
        )
    own_pool = deployment.model.family in held_at(facts.two_pools, version).value
    whole = windowed = window = state = keys = window_keys = 0
    for layer, indices in deployment.model.kinds:
        here = sum(1 for index in indices if index in layers)
        _known(layer.mixer, deployment)
        rows = layer.mixer.cache()
        each = here * sum(_token_bytes(row, layer.mixer, deployment) for row in rows)
        span = rows[0].window if rows else None
        of_keys = here * sum(_token_bytes(row, layer.mixer, deployment) for row in rows if row.name == "keys")
        if own_pool and span is not None and not isinstance(layer.mixer, LatentAttention):
            windowed, window, window_keys = windowed + each, max(window, span), window_keys + of_keys
        else:
            whole, keys = whole + each, keys + of_keys
        state += here * _state_bytes(layer.mixer, deployment)
    return TokenPools(
        whole=whole,
        windowed=windowed,
        window=window,
        ratio=facts.window_ratio.value,
        state=state,
        state_ratio=facts.state_ratio.value,
        slots=facts.state_slots.value,
        padding=held_at(facts.padding_slots, version).value if state else 0,
        page=deployment.page_size,
        most=deployment.max_total_tokens or 0,
        keys=keys,
        window_keys=window_keys,
        drafted=_drafted(deployment, whole, len(layers), stage),
    )


def _drafted(deployment: Deployment, whole: int, layers: int, stage: int) -> int:
    """Bytes per token that the pools set aside for what drafts: each of its layers as one of the target's.

    Source: SGLang's DefaultPoolConfigurator (Apache-2.0).
    """
    count = drafting_layers(deployment) if stage == deployment.pipeline_parallel - 1 else 0
    return int(whole * (1 + count / layers)) - whole if count else 0


def pool_notes(deployment: Deployment) -> list[Text]:
    """What a reader of the figures must know of the pools."""
    pools = token_pools(deployment, 0)
    found = [
        Text("SGLang takes its pools whole at its start; the ledger's KV bytes are what the load fills of them"),
    ]
    if pools.windowed:
        found.append(
            Text(
                "layers with windows have a pool of their own, with {ratio} tokens for one of the other "
                "(--swa-full-tokens-ratio)",
                ratio=pools.ratio,
            )
            if pools.whole
            else Text("all layers have windows, and one pool holds what they keep")
        )
    elif any(row.window for _, row in deployment.model.cache_rows()):
        found.append(
            Text(
                "{engine} keeps whole sequences in this model's layers with windows",
                engine=deployment.engine.label,
            )
        )
    if pools.state:
        found.append(
            Text(
                "constant state has a pool of its own, with {ratio} bytes for one of KV cache "
                "(--mamba-full-memory-ratio); a running request is taken to need {slots} slots of it, and needs one "
                "or two more with the extra buffer that some models turn on",
                ratio=pools.state_ratio,
                slots=pools.slots,
            )
        )
    return found


def _known(mixer: Mixer, deployment: Deployment) -> None:
    if isinstance(mixer, Parallel):
        _known(mixer.attention, deployment)
        _known(mixer.recurrent, deployment)
        return
    pooled = Attention | LatentAttention | GatedDeltaNet | KimiDelta | Mamba2 | NoMixer
    learned = isinstance(mixer, Attention) and mixer.prompt
    windowed = isinstance(mixer, LatentAttention) and mixer.window is not None
    if learned or windowed or not isinstance(mixer, pooled):
        raise BadInput(
            "how SGLang pools the cache of {family} is not known, so narrows does not say how many tokens fit; "
            "'narrows models' tells what one keeps",
            family=deployment.model.family,
        )


def _token_bytes(row: CacheRow, mixer: Mixer, deployment: Deployment) -> int:
    """Bytes of one token of one layer. An indexer's key is kept in FP8 with a float32 scale per 128 values; with an
    FP8 cache the latent has such scales too, and the rotary key beside it stays in 16 bits."""
    if row.name == INDEX_KEY:
        return row.width + row.width // _FP8_LATENT * 4
    if isinstance(mixer, LatentAttention) and mixer.index_heads and deployment.kv.bits == 8:
        return row.width + row.width // _FP8_LATENT * 4 if row.name == "latent" else 2 * row.width
    # KV heads that do not divide are cut downward, since more ranks than heads replicate them
    heads = max(1, row.heads // deployment.tensor_parallel)
    return deployment.kv.bytes_for(heads * row.width)


def _state_bytes(mixer: Mixer, deployment: Deployment) -> int:
    """Bytes of one layer's constant state of a request: of a convolution all inputs but the newest, in 16 bits; the
    recurrent state as the model's file asks for, else in 32 bits."""
    total = 0
    for row in mixer.state():
        elements = row.elements // min(deployment.tensor_parallel, row.shards)
        if row.kernel:
            total += FORMATS["bfloat16"].bytes_for(elements // row.kernel * (row.kernel - 1))
        else:
            total += FORMATS[row.asked or "float32"].bytes_for(elements)
    return total


def sglang_share(deployment: Deployment, kept: Reserve) -> int:
    """Bytes per device that the static share ends at: what is taken before loading, and the share of the rest."""
    taken = kept.runtime + deployment.memory_in_use
    return taken + int((deployment.usable - taken) * deployment.utilization)


def sglang_reserve(deployment: Deployment, given: Coefficients | None = None) -> Reserve:
    """What is taken before loading and beside the tensors (inside the share), activations and graphs (outside)."""
    known = coefficients(deployment.engine.name) if given is None else given
    peers = deployment.count - 1
    context, peer, beside = known["context_bytes"], known["context_bytes_per_peer"], known["loaded_beside_bytes"]
    runtime = int(context.value + peers * peer.value)
    step = _step_bytes(deployment) * known["forward_copies"].value
    decode, prefill = known["decode_graph_bytes"], known["prefill_graph_bytes"]
    sizes = captured_batches(deployment.graph_batch)
    graphs = int(sizes * decode.value + deployment.prefill_graphs * prefill.value)
    share = deployment.utilization
    basis: list[Text] = [
        Text(
            "taken before loading: {size}, assumed ({basis}; {peers} peers × {each}: {why})",
            size=binary(runtime),
            basis=Text(context.basis),
            peers=peers,
            each=binary(peer.value),
            why=Text(peer.basis),
        )
        if peers
        else Text("taken before loading: {size}, assumed ({basis})", size=binary(runtime), basis=Text(context.basis)),
        Text("beside the tensors: {size}, assumed ({basis})", size=binary(beside.value), basis=Text(beside.basis)),
        Text(
            "activations: {tokens} tokens of a prefill step × {size} at the widest layer, assumed ({basis}); outside "
            "the static share",
            tokens=deployment.max_num_batched_tokens,
            size=binary(step / deployment.max_num_batched_tokens),
            basis=Text(known["forward_copies"].basis),
        ),
    ]
    basis += draft_told(deployment)
    if graphs:
        basis.append(
            Text(
                "graphs: {decode} batches and {prefill} prefill steps are captured, {size}, assumed ({basis}; "
                "{pieces}); outside the static share",
                decode=sizes,
                prefill=deployment.prefill_graphs,
                size=binary(graphs),
                basis=Text(decode.basis),
                pieces=Text(prefill.basis),
            )
        )
    # of what is taken before loading, the pools lose their share; the ledger counts all of it before them
    low = context.low - context.value + peers * (peer.low - peer.value)
    high = context.high - context.value + peers * (peer.high - peer.value)
    return Reserve(
        activations=int(step),
        graphs=graphs,
        runtime=runtime,
        tables=int(beside.value),
        graphs_inside=False,
        low=int(runtime + low * share + beside.low),
        high=int(runtime + high * share + beside.high),
        basis=tuple(basis),
        activations_inside=False,
    )


def _step_bytes(deployment: Deployment) -> int:
    layers = [layer for layer, _ in deployment.model.kinds]
    widest = max(dense_elements(layer, deployment) + expert_elements(layer, deployment) for layer in layers)
    return deployment.max_num_batched_tokens * widest * deployment.dtype.bits // 8


def roomy_fraction(deployment: Deployment) -> float:
    """The largest share, in hundredths, that leaves activations and graphs as much as is estimated and 512 MiB more."""
    kept = sglang_reserve(deployment)
    free = deployment.usable - kept.runtime - deployment.memory_in_use
    return max(0, int(100 * (1 - (kept.activations + kept.graphs + _MARGIN) / free))) / 100 if free > 0 else 0.0


def sglang_stage(
    deployment: Deployment, weights: int, pool: int, tokens: int, kept: Reserve
) -> Literal["load", "kv", "graphs", "started"]:
    """Where a start would stop. It takes any pool, and refuses longer requests than it holds when they come."""
    if weights + kept.tables + kept.runtime + deployment.memory_in_use > deployment.usable:
        return "load"
    if pool <= 0 or tokens <= 0:
        return "kv"
    if deployment.usable - sglang_share(deployment, kept) < kept.graphs:
        return "graphs"
    return "started"
