"""ModelSpec: what a model is. Parameters, bytes, cache and FLOPs all derive from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from narrows.models.components import component_of
from narrows.models.dialects import DIALECTS
from narrows.models.feedforward import FeedForward
from narrows.models.mixers import Mixer
from narrows.models.module_schemes import Share, check_count, reached, scheme_of, shares, tower_schemes
from narrows.models.tensors import CacheRow, StateRow, Stored, Tensor, TensorRow
from narrows.precision import FORMATS, UNQUANTIZED, Exclusions, Format, Overrides, Part, Scheme
from narrows.precision.per_tensor import PerTensor
from narrows.text import Text

if TYPE_CHECKING:
    from narrows.models.stored.facts import Measured


class Norms(msgspec.Struct, frozen=True):
    """The norms of one layer, by the name each has in the file; LayerNorm has a bias, RMSNorm has none."""

    names: tuple[str, ...]
    bias: bool = False


class Layer(msgspec.Struct, frozen=True):
    """One decoder layer: a mixer, a feed-forward part, and the norms around them.

    per_layer: width of an input of the layer's own, gathered by token (Gemma 4; 0: none). beside: tensors beside
    those parts (hyper-connections, AltUp, scales of residuals, convolutions after a part).
    owner: index of the layer whose weights this one runs with (Zamba's shared block, looped layers; None: its own);
    borrowed: prefixes of the roles of those weights, which are counted and stored with their owner alone.
    one_sum: ranks add up what mixer and feed-forward part make together, in one sum for both (Falcon's parallel
    blocks: vLLM's falcon.py, `reduce_row_parallel_results`).
    """

    mixer: Mixer
    feed_forward: FeedForward | None
    norms: Norms
    hidden: int
    per_layer: int = 0
    beside: tuple[Tensor, ...] = ()
    owner: int | None = None
    borrowed: tuple[str, ...] = ()
    one_sum: bool = False

    def tensors(self) -> list[Tensor]:
        """All tensors that one such layer has of its own."""
        return [tensor for tensor in self.applied() if not tensor.role.startswith(self.borrowed)]

    def lent(self) -> list[Tensor]:
        """The tensors that stand with the owner."""
        return [tensor for tensor in self.applied() if tensor.role.startswith(self.borrowed)]

    def applied(self) -> list[Tensor]:
        """All tensors that one such layer runs with, wherever they stand."""
        found = self.mixer.tensors()
        if self.feed_forward is not None:
            found = found + self.feed_forward.tensors()
        if self.per_layer:
            found.append(Tensor("per_layer.gate", (self.per_layer, self.hidden)))
            found.append(Tensor("per_layer.projection", (self.hidden, self.per_layer)))
        for name in self.norms.names:
            found.append(Tensor(f"norm.{name}", (self.hidden,), "vector"))
            if self.norms.bias:
                found.append(Tensor(f"norm.{name}.bias", (self.hidden,), "vector"))
        return [*found, *self.beside]


class LayerGroup(msgspec.Struct, frozen=True):
    """`repeat` equal layers in a row; `first` is the index of the first one."""

    repeat: int
    layer: Layer
    first: int


class Tower(msgspec.Struct, frozen=True):
    """A part beside the decoder: a vision encoder with its projector, or layers stored but not served (MTP).

    An encoder of an encoder-decoder is one too: its layers are cut by tensor parallelism as their tensors say, and
    stand in the first pipeline stage. reads: it runs once per token of the prompt, not per patch of a picture.
    served: an ordinary server loads it.
    unique: it counts as parameters of the model (transformers does not build MTP layers).
    patches: of an image, for one token of the decoder. largest: tokens of the largest image that its processor makes,
    0 where a step holds it in any case. rotary: patches are told apart by rotation.
    """

    name: str
    tensors: tuple[tuple[str, int, Tensor], ...]
    """(name pattern, repeats, tensor)"""
    served: bool = True
    unique: bool = True
    patches: int = 4
    largest: int = 0
    rotary: bool = False
    reads: bool = False
    layers: tuple[Layer, ...] = ()
    """Of prediction layers: how each is built."""


class Precision(msgspec.Struct, frozen=True):
    """How the checkpoint stores its weights, and the KV precision it asks for.

    dtype: format of what is not quantized; assumed: the file does not say, so it was assumed.
    kv_cache: the checkpoint's own KV format (None: as dtype).
    """

    dtype: Format
    assumed: bool = False
    scheme: Scheme = UNQUANTIZED
    exclusions: Exclusions = Exclusions()
    quantized_roles: tuple[str, ...] = ()
    """Prefixes of the roles the scheme applies to; empty: every linear weight."""
    kv_cache: Format | None = None
    overrides: Overrides = Overrides()
    """Modules stored otherwise than by `scheme`, unless excluded."""
    reach: tuple[str, ...] = ()
    """What the scheme applies to beside linear weights of the layers: "head", "embedding", "router", "tower"."""
    habits: tuple[str, ...] = ()
    """What the tool that wrote the file stores besides or leaves out (`module_schemes.HEAD_AGAIN`, …)."""
    method: str = ""
    """The file's own `quant_method`."""
    notes: tuple[Text, ...] = ()
    """What was assumed of how the weights are stored."""

    @property
    def label(self) -> str:
        """The schemes' short name for tables; empty where the data type alone names it."""
        found = dict.fromkeys(one.label for one in (self.scheme, *self.overrides.schemes) if one.label)
        return ", ".join(list(found)[:3]) + (", …" if len(found) > 3 else "")


class ModelSpec(msgspec.Struct, frozen=True, dict=True):
    """One model: immutable, complete, and the only source of every figure about it.

    head_tied: the output head is the embedding (some files store it a second time all the same: a config cannot tell).
    """

    name: str
    architecture: str
    family: str
    vocab: int
    hidden: int
    max_length: int
    groups: tuple[LayerGroup, ...]
    precision: Precision
    dialect: str
    head_tied: bool
    positions: int = 0
    """Learned absolute positions (GPT-2); 0 for rotary ones."""
    final_norm: bool = True
    """Whether the last norm has a weight (OLMo's has none)."""
    final_norm_bias: bool = False
    head_bias: bool = False
    embedding_norm: bool = False
    """A LayerNorm after the embedding (BLOOM)."""
    embedding_width: int = 0
    """Width of the embedding and the head where they are projected to and from the hidden size (OPT); 0: the same."""
    per_layer: tuple[int, int] = (0, 0)
    """Rows and width of the table that gives every layer an input of its own (Gemma 4)."""
    embedding_rows: int = 0
    """Rows of the embedding where they are not the vocabulary's (rows for pictures, padding; 0: the same)."""
    codebooks: int = 1
    """Embeddings and heads side by side (MusicGen: one per codebook)."""
    extra: tuple[tuple[str, Tensor], ...] = ()
    """(component, tensor) of what stands outside the layers beside the usual; see `outside`."""
    towers: tuple[Tower, ...] = ()
    frame: tuple[tuple[str, Tensor], ...] = ()
    """(component, tensor) of all that stands around the layers, where it is not the usual frame of a decoder."""
    source: str = ""
    assumptions: tuple[Text, ...] = ()
    stored: Stored | None = None
    """What the headers of its files hold, where they were read."""
    measured: Measured | None = None
    """Where they tell of single tensors otherwise than the rules of `precision`."""

    @property
    def layers(self) -> int:
        """Number of decoder layers."""
        return sum(group.repeat for group in self.groups)

    @property
    def each_layer(self) -> list[Layer]:
        """The layers in order, one by one."""
        return [group.layer for group in self.groups for _ in range(group.repeat)]

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, tuple[int, ...]], ...]:
        """Equal layers together, wherever they stand: (layer, its indices)."""
        found: dict[int, tuple[Layer, list[int]]] = {}
        by_value: dict[Layer, int] = {}
        for group in self.groups:
            # readers reuse one object for equal layers, so that comparing by value is rarely needed
            key = id(group.layer)
            if key not in found:
                key = by_value.setdefault(group.layer, key)
            found.setdefault(key, (group.layer, []))[1].extend(range(group.first, group.first + group.repeat))
        return tuple((layer, tuple(indices)) for layer, indices in found.values())

    def outer_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """(component, tensor) of what stands before and after the layers. Vocabulary rows are shared out by TP."""
        if self.frame:
            yield from self.frame
            return
        width = self.embedding_width or self.hidden
        rows, books = self.embedding_rows or self.vocab, self.codebooks
        yield "embedding", Tensor("embedding", (rows, width), "table", rows, books)
        if self.embedding_width:
            yield "embedding", Tensor("embedding.in", (self.hidden, width), "plain")
            yield "head", Tensor("embedding.out", (width, self.hidden), "plain")
        tokens, each = self.per_layer
        if tokens:
            total = each * self.layers
            yield "per-layer input", Tensor("per_layer.embedding", (tokens, total), "table", tokens)
            yield "per-layer input", Tensor("per_layer.model_projection", (total, self.hidden), "plain")
            yield "per-layer input", Tensor("per_layer.norm", (each,), "vector")
        if self.positions:
            yield "embedding", Tensor("position_embedding", (self.positions, self.hidden), "table")
        if self.embedding_norm:
            yield "norms", Tensor("embedding_norm", (self.hidden,), "vector")
            yield "norms", Tensor("embedding_norm.bias", (self.hidden,), "vector")
        if self.final_norm:
            yield "norms", Tensor("final_norm", (self.hidden,), "vector")
        if self.final_norm_bias:
            yield "norms", Tensor("final_norm.bias", (self.hidden,), "vector")
        if not self.head_tied:
            yield "head", Tensor("head", (self.vocab, width), "plain", self.vocab, books)
        if self.head_bias:
            yield "head", Tensor("head.bias", (self.vocab,), "vector", self.vocab)
        yield from self.extra

    def tensor_table(self) -> list[TensorRow]:
        """Every tensor of the model as the checkpoint names and stores it, towers included."""
        return list(self._table)

    @cached_property
    def _table(self) -> tuple[TensorRow, ...]:
        # made once: parameters, active ones and bytes are each summed over it
        of_layers = [row for layer, indices in self.kinds for row in self.layer_rows(layer, indices)]
        return (*self.outer_rows(), *of_layers, *(row for tower in self.towers for row in self.tower_rows(tower)))

    @cached_property
    def by_rules(self) -> ModelSpec:
        """The model as the config alone says it is stored."""
        return msgspec.structs.replace(self, measured=None)

    def layer_rows(self, layer: Layer, indices: Sequence[int]) -> Iterator[TensorRow]:
        """Rows of equal layers that stand at `indices` (of a pipeline stage, say)."""
        if self.measured is not None:
            yield from self.measured.layer_rows(self.by_rules, layer, indices)
            return
        names = self._names
        for tensor in layer.tensors():
            yield from self._tensor_rows(names[tensor.role], tensor, indices)

    def lent_rows(self, layer: Layer) -> Iterator[TensorRow]:
        """Rows of the weights that a layer runs with and its owner holds."""
        names = self._names
        for tensor in layer.lent():
            yield from self._tensor_rows(names[tensor.role], tensor, (layer.owner or 0,))

    def outer_rows(self) -> list[TensorRow]:
        """Rows of what stands before and after the layers: embedding, final norm, head."""
        if self.measured is not None:
            return self.measured.rows(self.by_rules.outer_rows())
        names = self._names
        return [
            TensorRow(
                names[tensor.role], component, tensor, 1, self._parts(tensor, self._scheme(tensor, names[tensor.role]))
            )
            for component, tensor in self.outer_tensors()
        ]

    def tower_rows(self, tower: Tower) -> list[TensorRow]:
        """Rows of a part beside the decoder."""
        if self.measured is not None:
            return self.measured.rows(self.by_rules.tower_rows(tower))
        return [
            TensorRow(pattern, tower.name, tensor, count, self._parts(tensor, scheme, pattern))
            for pattern, repeats, tensor in tower.tensors
            for scheme, count in tower_schemes(self.precision, tensor, pattern, repeats)
        ]

    @property
    def _names(self) -> dict[str, str]:
        """Role → name in the file: the file's own where it says of every tensor how it is stored."""
        scheme = self.precision.scheme
        return scheme.names if isinstance(scheme, PerTensor) else DIALECTS[self.dialect]

    def _tensor_rows(self, pattern: str, tensor: Tensor, indices: Sequence[int]) -> Iterator[TensorRow]:
        """Rows of one tensor over several layers: split where the checkpoint quantizes some of them only."""
        component = component_of(tensor.role)
        each = self.precision.scheme
        if isinstance(each, PerTensor):
            stored: dict[tuple[Part, ...], int] = {}
            for index in indices:
                parts = each.of(tensor.role, index)
                stored[parts] = stored.get(parts, 0) + 1
            for parts, count in stored.items():
                yield TensorRow(pattern, component, tensor, count, parts)
            return
        if not indices or not reached(self.precision, tensor):
            yield TensorRow(pattern, component, tensor, len(indices), self._parts(tensor, UNQUANTIZED))
            return
        check_count(self.precision, tensor, len(indices))
        counts: dict[Share, int] = {}
        for index in indices:
            for share in self.shares(pattern, tensor, index):
                counts[share] = counts.get(share, 0) + 1
        for share, count in counts.items():
            some = share.of(tensor)
            yield TensorRow(pattern, component, some, count, self._parts(some, share.scheme))

    def shares(self, pattern: str, tensor: Tensor, index: int) -> tuple[Share, ...]:
        """How a tensor of layer `index` is stored; looked up once, since a config may list thousands of modules."""
        found: dict[tuple[str, str, int], tuple[Share, ...]] = self.__dict__.setdefault("_found_shares", {})
        key = (pattern, tensor.role, index)
        if key not in found:
            found[key] = shares(self.precision, tensor, pattern, index)
        return found[key]

    def _scheme(self, tensor: Tensor, name: str) -> Scheme:
        if not reached(self.precision, tensor):
            return UNQUANTIZED
        return scheme_of(self.precision, name.removesuffix(".weight"))

    def _parts(self, tensor: Tensor, scheme: Scheme, name: str = "") -> tuple[Part, ...]:
        """Stored parts; of a tensor beside the decoder, `name` tells it apart."""
        if tensor.use == "built":
            return ()
        own = self.precision.scheme
        if isinstance(own, PerTensor):
            return own.of(name or tensor.role)
        dtype = self.precision.dtype if tensor.format is None else FORMATS[tensor.format]
        if scheme is UNQUANTIZED:
            return (Part("weight", dtype, tensor.elements // tensor.copies),)
        return scheme.stored(tensor.shape[0], tensor.shape[1], dtype)

    def unique_parameters(self) -> int:
        """Parameters, each counted once: a tied head, buffers, scales and MTP layers add nothing."""
        return sum(row.elements for row in self._parameter_rows())

    def active_parameters(self) -> int:
        """Parameters that one token's forward pass can touch: all but the experts it is not routed to."""
        return sum(row.tensor.active_elements * row.count for row in self._parameter_rows())

    def _parameter_rows(self) -> Iterator[TensorRow]:
        apart = {tower.name for tower in self.towers if not tower.unique}
        return (row for row in self.tensor_table() if row.tensor.use != "buffer" and row.component not in apart)

    def checkpoint_bytes(self) -> int:
        """Bytes of all stored tensors, packed and with scales, MTP layers included; file headers are not."""
        if self.stored is not None:
            return self.stored.bytes
        return sum(row.stored_bytes for row in self.tensor_table())

    def cache_rows(self) -> Iterator[tuple[int, CacheRow]]:
        """(layers, row) for everything that is cached per token."""
        return ((len(indices), row) for layer, indices in self.kinds for row in layer.mixer.cache())

    def state_rows(self) -> Iterator[tuple[int, StateRow]]:
        """(layers, row) for constant state per sequence."""
        return ((len(indices), row) for layer, indices in self.kinds for row in layer.mixer.state())

    def cache_elements(self, length: int) -> int:
        """KV elements of one sequence of `length` tokens, all layers; a window keeps min(length, window)."""
        return sum(layers * row.elements_per_token * row.tokens(length) for layers, row in self.cache_rows())

    def state_elements(self) -> int:
        """Elements of constant state of one sequence, all layers."""
        return sum(layers * row.elements for layers, row in self.state_rows())

    def kv_format(self) -> Format:
        """The KV precision a server chooses by itself: the checkpoint's, else the data type of the weights."""
        return self.precision.kv_cache or self.precision.dtype

    def kv_bytes_per_sequence(self, length: int, kv: Format | None = None) -> int:
        """KV bytes of one sequence of `length` tokens."""
        return (kv or self.kv_format()).bytes_for(self.cache_elements(length))

    def kv_bytes_per_token(self, length: int, kv: Format | None = None) -> int:
        """KV bytes that the token after `length` tokens adds: 0 in layers whose window is full."""
        elements = self.cache_elements(length + 1) - self.cache_elements(length)
        # a token that completes a compressed entry lets go of those that waited for it
        return (kv or self.kv_format()).bytes_for(max(0, elements))

    def state_bytes_per_sequence(self) -> int:
        """Bytes of constant state of one sequence, each part in its own format."""
        dtype = self.precision.dtype
        return sum(
            layers * (dtype if row.format is None else FORMATS[row.format]).bytes_for(row.elements)
            for layers, row in self.state_rows()
        )
