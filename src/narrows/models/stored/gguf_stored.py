"""A model as a GGUF file stores it: every canonical tensor with its share of the file's tensors, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import msgspec

from narrows.models.spec import ModelSpec, Tower
from narrows.models.stored.gguf_families import CONVERTED
from narrows.models.stored.gguf_layout import layout, placed_tensors
from narrows.models.stored.gguf_names import Names, names_of, stored_names
from narrows.models.tensors import Tensor
from narrows.precision import FORMATS, Part
from narrows.precision.ggml import FileType, GgmlType, ggml_types
from narrows.precision.ggml_mix import MixedModel, mixed_types
from narrows.precision.per_tensor import OUTSIDE, PerTensor
from narrows.text import BadInput, Text
from narrows.units import binary

_KNOWN_BESIDE = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Tables of rotary positions, which are no parameters."""


class StoredTensor(msgspec.Struct, frozen=True):
    """What a file has of one tensor."""

    name: str
    type: GgmlType
    elements: int

    @property
    def bytes(self) -> int:
        """Without padding."""
        return self.type.bytes_for(self.elements)


class _Shares(msgspec.Struct):
    """What the metadata makes of the tensors of one name (or of those that together hold a role)."""

    expected: int = 0
    missing: bool = False


def stored_as(spec: ModelSpec, tensors: Iterable[StoredTensor], kind: str) -> ModelSpec:
    """The model with every tensor as the file stores it, and with notes on all that does not agree.

    Bytes are the file's, to the byte, whatever the metadata says. What the decoder does not have is kept beside it.
    """
    file = {tensor.name: tensor for tensor in tensors}
    places = [
        (placed, stored_names(spec.family, placed.tensor.role, placed.index, file)) for placed in placed_tensors(spec)
    ]
    shares: dict[Names, _Shares] = {}
    for placed, names in places:
        share = shares.setdefault(names, _Shares())
        share.expected += placed.tensor.elements
        share.missing = share.missing or any(name not in file for name in names)
    parts = {
        (placed.tensor.role, placed.index): _share(placed.tensor, [file[n] for n in names if n in file], shares[names])
        for placed, names in places
    }
    used = {name for names in shares for name in names}
    others = [tensor for tensor in file.values() if tensor.name not in used]
    towers = _beside(spec, others, parts)
    patterns = {placed.tensor.role: _pattern(spec, placed.tensor.role, names) for placed, names in places}
    scheme = PerTensor(kind, patterns, parts)
    half = FORMATS["float16"]
    # llama.cpp computes in 32 bits and keeps the KV cache in 16 unless told otherwise
    precision = msgspec.structs.replace(spec.precision, dtype=half, assumed=False, scheme=scheme, kv_cache=half)
    made = msgspec.structs.replace(
        spec,
        precision=precision,
        towers=towers,
        assumptions=(*spec.assumptions, *_disagreements(shares, file), *_unplaced(spec, others)),
    )
    left = sum(tensor.bytes for tensor in file.values()) - made.checkpoint_bytes()
    if not left:
        return made
    # only where metadata and tensors disagree: what the shares could not be given evenly
    parts["remainder", OUTSIDE] = (Part("remainder", ggml_types()["I8"], left),)
    rest = Tower("other tensors", (("remainder", 1, Tensor("remainder", (left,), "buffer")),), unique=False)
    return msgspec.structs.replace(made, towers=(*made.towers, rest))


def _share(tensor: Tensor, stored: list[StoredTensor], share: _Shares) -> tuple[Part, ...]:
    """What one copy of a canonical tensor has of the tensors that hold it."""
    found = []
    for one in stored:
        elements = one.elements * tensor.elements // max(1, share.expected) // tensor.copies
        if elements * share.expected * tensor.copies != one.elements * tensor.elements:
            elements -= elements % one.type.block
        found.append(Part(one.name.rpartition(".")[2], one.type, elements))
    return tuple(found)


def _pattern(spec: ModelSpec, role: str, names: Names) -> str:
    """The name of a role's tensor with `{}` for the layer."""
    for options in names_of(spec.family, role):
        if len(options) == len(names):
            return options[0] if options else role
    return role


def _beside(
    spec: ModelSpec, others: list[StoredTensor], parts: dict[tuple[str, int], tuple[Part, ...]]
) -> tuple[Tower, ...]:
    """Tensors of the file that the decoder does not have: layers for prediction, which are not served, and others."""
    found: dict[str, list[tuple[str, int, Tensor]]] = {}
    for one in others:
        name = "MTP layer" if _is_prediction(spec, one.name) else "other tensors"
        found.setdefault(name, []).append((one.name, 1, Tensor("beside", (one.elements,), "buffer")))
        parts[one.name, OUTSIDE] = (Part("weight", one.type, one.elements),)
    return tuple(Tower(name, tuple(rows), served=name != "MTP layer", unique=False) for name, rows in found.items())


def _is_prediction(spec: ModelSpec, name: str) -> bool:
    """Whether a tensor is of a layer beyond the decoder's."""
    head, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return head == "blk" and number.isascii() and number.isdecimal() and spec.layers <= int(number[:9]) < 2**30


def _disagreements(shares: dict[Names, _Shares], file: dict[str, StoredTensor]) -> list[Text]:
    """Where the metadata makes another size than the file has, or a tensor that it lacks."""
    found = []
    missing = [names for names, share in shares.items() if share.missing]
    if missing:
        found.append(
            Text(
                "tensors that the metadata asks for and the file lacks: {count}, such as '{name}'; they count as "
                "parameters, but take no bytes",
                count=len(missing),
                name=" + ".join(missing[0]),
            )
        )
    wrong = []
    for names, share in shares.items():
        elements = sum(file[name].elements for name in names if name in file)
        if not share.missing and elements != share.expected and names:
            wrong.append((names, elements, share.expected))
    if wrong:
        names, elements, expected = wrong[0]
        found.append(
            Text(
                "tensors whose size is not what the metadata makes it: {count}, such as '{name}' with {stored} "
                "elements in place of {expected}; bytes are the file's, but parameters and cache may be wrong",
                count=len(wrong),
                name=" + ".join(names),
                stored=elements,
                expected=expected,
            )
        )
    return found


def _unplaced(spec: ModelSpec, others: list[StoredTensor]) -> list[Text]:
    """Tensors that no part of the model is known to have."""
    unknown = [one for one in others if one.name not in _KNOWN_BESIDE and not _is_prediction(spec, one.name)]
    if not unknown:
        return []
    return [
        Text(
            "tensors that no known part of the model has: {count}, such as '{name}'; their {size} count as bytes, and "
            "not as parameters",
            count=len(unknown),
            name=unknown[0].name,
            size=binary(sum(one.bytes for one in unknown)),
        )
    ]


_SEVENTY = ("llama", "qwen2", "olmo")
"""Families whose models of 80 layers llama.cpp calls 70B (Llama's only with grouped queries)."""


def quantized(spec: ModelSpec, kind: FileType) -> ModelSpec:
    """The model as llama.cpp's quantizer would store it, from a config alone."""
    rows = _known_layout(spec)
    types = mixed_types(kind, _mixed_model(spec), rows)
    notes: tuple[Text, ...] = (
        Text("stored as llama.cpp's {kind}, tensor by tensor, made without an importance matrix", kind=kind.name),
    )
    if spec.family not in CONVERTED:
        notes += (
            Text(
                "llama.cpp is not known to run the family {family}; the size is what its rule would make of it",
                family=spec.family,
            ),
        )
    if any(tower.served for tower in spec.towers):
        notes += (Text("a GGUF file holds the decoder only; vision is a file of its own (mmproj) and not counted"),)
    if any(not tower.unique for tower in spec.towers):
        notes += (Text("layers for the prediction of further tokens (MTP) are not counted; some GGUF files have them"),)
    bare = msgspec.structs.replace(spec, towers=(), stored=None, measured=None, assumptions=(*spec.assumptions, *notes))
    return stored_as(bare, (StoredTensor(name, types[name], prod(dims)) for name, dims in rows), kind.name)


def _known_layout(spec: ModelSpec) -> list[tuple[str, tuple[int, ...]]]:
    for placed in placed_tensors(spec):
        if not names_of(spec.family, placed.tensor.role):
            raise BadInput(
                "llama.cpp has no architecture for the family {family}, so that its file types do not apply; give the "
                "model's own config without --quantization",
                family=spec.family,
            )
    return layout(spec)


def _mixed_model(spec: ModelSpec) -> MixedModel:
    first = min(spec.kinds, key=lambda kind: kind[1][0])[0].mixer
    heads, kv = getattr(first, "heads", 0), getattr(first, "kv_heads", 0)
    experts = max((getattr(layer.feed_forward, "experts", 0) for layer, _ in spec.kinds), default=0)
    if hasattr(first, "kv_rank"):
        kv = 1  # files since April 2025 keep one latent for all heads
    elif hasattr(first, "attention"):
        heads, kv = first.attention.heads, first.attention.kv_heads
    return MixedModel(
        layers=spec.layers,
        heads_per_kv=heads // kv if kv else 0,
        experts=experts,
        seventy=spec.layers == 80 and spec.family in _SEVENTY and (spec.family != "llama" or heads != kv),
        falcon=spec.family == "falcon",
    )
