"""llama.cpp's memory law: everything is allocated at the start, whole, and nothing grows.

Cells: each slot has n_ctx cells, a multiple of 256, in every layer that caches; layers with windows have only the
window and one step of tokens, rounded up likewise. Constant state is kept in 32 bits, once per slot. The embedding
stays in the host's memory (a tied one is copied to the device as the head). Source: llama.cpp (MIT), as in
`engines/data/llama.cpp.json`. The compute buffer is an estimate.
"""

from __future__ import annotations

import msgspec

from narrows.calibration import Coefficients, coefficients
from narrows.deployment import Deployment, stages
from narrows.deployment.draft import drafting
from narrows.deployment.share import outer_rows_of, resident_bytes
from narrows.engines.llamacpp import llama_facts
from narrows.memory.activations import dense_elements, expert_elements
from narrows.memory.largest import largest
from narrows.memory.reserve import Reserve
from narrows.memory.shard import Shard
from narrows.models.mixers import LatentAttention, Mixer
from narrows.models.tensors import CacheRow
from narrows.precision import Format
from narrows.text import Text
from narrows.units import binary


class CellRow(msgspec.Struct, frozen=True):
    """What some layers keep of one cell: bytes of keys and values together; window: tokens, None for all."""

    layers: int
    bytes: int
    window: int | None


class LlamaShard(Shard, frozen=True, kw_only=True):
    """One device of a split by layers. A sequence costs what a slot of its length is given at the start.

    step: tokens of one step, which windows keep beside themselves.
    """

    cells: tuple[CellRow, ...]
    step: int
    padding: int

    def kv_bytes(self, length: int) -> int:
        """Bytes of a slot of `length` tokens; none without tokens."""
        if not length:
            return 0
        whole = self.padded(length)
        return sum(
            row.layers * row.bytes * (whole if row.window is None else min(whole, self.padded(row.window + self.step)))
            for row in self.cells
        )

    def padded(self, tokens: int) -> int:
        """Cells for so many tokens."""
        return -(-tokens // self.padding) * self.padding


class Cells(msgspec.Struct, frozen=True):
    """The layout of one device, with the questions that an engine's pages answer.

    A block is 256 cells of all layers that keep whole sequences (or the state of a slot, where none does).
    """

    shard: LlamaShard

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return self.shard.padding

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        whole = sum(row.layers * row.bytes for row in self.shard.cells if row.window is None)
        return max(1, whole * self.block or self.shard.sequence_bytes(self.block))

    @property
    def group_count(self) -> int:
        """Blocks are of one kind."""
        return 1

    def request_bytes(self, length: int) -> int:
        """Bytes of a slot of `length` tokens."""
        return self.shard.sequence_bytes(length)

    def blocks(self, kv_bytes: int) -> int:
        """Blocks in a pool."""
        return max(0, kv_bytes // self.block_bytes)

    def blocks_per_request(self, length: int) -> int:
        """Blocks that a slot of `length` tokens takes, windows and state counted as blocks."""
        return -(-self.request_bytes(length) // self.block_bytes)

    def requests(self, kv_bytes: int, length: int) -> int:
        """Slots of `length` tokens that a pool holds."""
        return max(0, kv_bytes) // max(1, self.request_bytes(length))

    def concurrency(self, kv_bytes: int, length: int) -> float:
        """The same as a fraction."""
        return max(0, kv_bytes) / max(1, self.request_bytes(length))

    def tokens(self, kv_bytes: int, length: int) -> int:
        """Tokens of all slots together: the context size (`-c`) that a pool holds for slots of `length` tokens."""
        return self.requests(kv_bytes, length) * self.shard.padded(length)

    def longest(self, kv_bytes: int, limit: int, batch: int = 1) -> int:
        """Tokens of the longest `batch` slots, up to `limit`."""
        return largest(limit, lambda length: batch * self.request_bytes(length) <= kv_bytes)


def llama_shards(deployment: Deployment) -> list[LlamaShard]:
    """One per device; layers are shared out evenly (`--split-mode layer`, devices of equal size)."""
    model, facts = deployment.model, llama_facts()
    keeps_windows = model.family in facts.windowed.value and not deployment.swa_full
    cuts = stages(model.layers, deployment.pipeline_parallel)
    found = []
    for index, layers in enumerate(cuts):
        rows = outer_rows_of(deployment, index == 0, index == len(cuts) - 1)
        cells: list[CellRow] = []
        state = 0
        for layer, indices in model.kinds:
            here = [i for i in indices if i in layers]
            if not here:
                continue
            rows += model.layer_rows(layer, here)
            window = layer.mixer.cache()[0].window if layer.mixer.cache() else None
            each = cell_bytes(layer.mixer, model.family, deployment.kv, deployment.kv_v or deployment.kv)
            if each:
                cells.append(CellRow(len(here), each, window if keeps_windows else None))
            state += len(here) * 4 * _state_elements(layer.mixer)
        weights = resident_bytes(rows, deployment)
        if deployment.draft_model is not None:
            (beside,) = llama_shards(drafting(deployment))
            weights, state = weights + beside.weights, state + beside.state
            cells += beside.cells
        found.append(
            LlamaShard(
                stage=index,
                weights=weights,
                cache=(),
                state=state,
                kv_bits=deployment.kv.bits,
                cells=tuple(cells),
                step=deployment.max_num_batched_tokens,
                padding=facts.cell_padding.value,
            )
        )
    return found


def cell_bytes(mixer: Mixer, family: str, keys: Format, values: Format) -> int:
    """Bytes of one cell of one layer. A latent is kept once, as a key; MiniCPM 3 keeps every head's keys and values."""
    if isinstance(mixer, LatentAttention) and family == "minicpm3":
        heads = mixer.heads
        return keys.bytes_for(heads * (mixer.nope + mixer.rope)) + values.bytes_for(heads * mixer.value)
    rows = mixer.cache()
    latent = sum(_width(row) for row in rows if row.name in ("latent", "rotary key"))
    total = keys.bytes_for(latent) if latent else 0
    for row in rows:
        if row.name not in ("latent", "rotary key"):
            total += (values if row.name == "values" else keys).bytes_for(_width(row))
    return total


def _width(row: CacheRow) -> int:
    return row.heads * row.width


def _state_elements(mixer: Mixer) -> int:
    """Elements of constant state of one layer and slot: of a convolution all inputs but the newest."""
    total = 0
    for row in mixer.state():
        total += row.elements // row.kernel * (row.kernel - 1) if row.kernel else row.elements
    return total


def llama_reserve(deployment: Deployment, given: Coefficients | None = None) -> Reserve:
    """The compute buffer of one step and the process's own memory: both assumed, and said to be."""
    known = coefficients(deployment.engine.name) if given is None else given
    model, tokens = deployment.model, deployment.max_num_batched_tokens
    each, error, runtime = known["compute_bytes_per_element"], known["compute_error"], known["runtime_bytes"]
    logits = model.vocab + model.hidden
    widest = max(dense_elements(layer, deployment) + expert_elements(layer, deployment) for layer, _ in model.kinds)
    buffer = int(tokens * max(logits, widest) * each.value)
    if deployment.draft_model is not None:
        buffer += llama_reserve(drafting(deployment), given).activations
    basis: tuple[Text, ...] = (
        Text(
            "compute buffer: {tokens} tokens of a step × {elements} values of logits or of the widest layer × 4 B, an "
            "estimate ({basis})",
            tokens=tokens,
            elements=max(logits, widest),
            basis=Text(error.basis),
        ),
        Text("runtime: {size}, assumed ({basis})", size=binary(runtime.value), basis=Text(runtime.basis)),
    )
    if deployment.draft is not None:
        from narrows.memory.draft import draft_told

        basis += tuple(draft_told(deployment))
    if any(layer.mixer.state() for layer, _ in model.kinds):
        basis += (
            Text(
                "layers with constant state can need far more of the compute buffer than this: 7 GiB were seen with "
                "Nemotron 3 Ultra (build 9525)"
            ),
        )
    return Reserve(
        activations=buffer,
        graphs=0,
        runtime=int(runtime.value),
        tables=0,
        graphs_inside=True,
        low=int(buffer * error.low + runtime.low),
        high=int(buffer * error.high + runtime.high),
        basis=basis,
    )
