"""The tensors that a GGUF file of a model has: their names and dimensions, in the order of layers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narrows.models.mixers import GatedDeltaNet, LatentAttention, Mixer, Parallel
from narrows.models.spec import ModelSpec
from narrows.models.stored.gguf_names import stored_names
from narrows.models.tensors import Tensor
from narrows.precision.per_tensor import OUTSIDE

Dims = tuple[int, ...]


class Placed(msgspec.Struct, frozen=True):
    """A canonical tensor of one layer (OUTSIDE: of none), and the mixer it belongs to."""

    tensor: Tensor
    index: int
    mixer: Mixer | None = None


def placed_tensors(spec: ModelSpec) -> Iterator[Placed]:
    """Every canonical tensor of the decoder, layer by layer."""
    for _, tensor in spec.outer_tensors():
        yield Placed(tensor, OUTSIDE)
    by_index = {}
    for layer, indices in spec.kinds:
        rows = [(tensor, layer.mixer) for tensor in layer.tensors()]
        for index in indices:
            by_index[index] = rows
    for index in sorted(by_index):
        for tensor, mixer in by_index[index]:
            yield Placed(tensor, index, mixer)


def layout(spec: ModelSpec) -> list[tuple[str, Dims]]:
    """(name, dimensions with the row's length first) of every tensor of a new file of this model.

    Roles that are fused add up along their output; one that is cut gives as many tensors.
    """
    found: dict[str, Dims] = {}
    for placed in placed_tensors(spec):
        names = stored_names(spec.family, placed.tensor.role, placed.index)
        for name, dims in zip(names, _dims(placed, len(names)), strict=True):
            found[name] = _joined(found[name], dims) if name in found else dims
    return list(found.items())


def _dims(placed: Placed, pieces: int) -> list[Dims]:
    """Dimensions as GGML has them, of each piece that the tensor is cut into."""
    tensor, mixer = placed.tensor, placed.mixer
    if isinstance(mixer, Parallel):
        mixer = mixer.recurrent
    if pieces == 0:
        return []
    if pieces == 2 and isinstance(mixer, LatentAttention):
        return [(mixer.nope, mixer.kv_rank, mixer.heads), (mixer.kv_rank, mixer.value, mixer.heads)]
    if pieces == 2 and isinstance(mixer, GatedDeltaNet):
        values = mixer.value_heads * mixer.value_dim
        return [(mixer.hidden, tensor.shape[0] - values), (mixer.hidden, values)]
    assert pieces == 1, tensor.role
    dims = tuple(size for size in reversed(tensor.shape) if size > 1) or (1,)
    return [(*dims, tensor.copies) if tensor.copies > 1 else dims]


def _joined(one: Dims, other: Dims) -> Dims:
    """Two tensors beside each other along their output: the last dimension of a matrix, the second of experts."""
    at = min(len(one), 2) - 1
    return (*one[:at], one[at] + other[at], *one[at + 1 :])
