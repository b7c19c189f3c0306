"""Tensors as matrix products on one rank: fused as engines fuse them, cut as tensor parallelism cuts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import NamedTuple

import msgspec

from narrows.deployment import Deployment
from narrows.deployment.share import pieces, ranks_of, resident_of
from narrows.models.module_schemes import reached
from narrows.models.spec import Layer, ModelSpec
from narrows.models.tensors import Tensor, TensorRow
from narrows.precision import UNQUANTIZED
from narrows.precision.per_tensor import PerTensor
from narrows.step.arithmetic import Arithmetic, of_scheme, plain
from narrows.step.kernels import ChosenMatMul, MatMul
from narrows.step.load import Rows

FUSED = {
    **dict.fromkeys(("attention.q", "attention.q_a", "attention.k", "attention.v"), "attention.qkv"),
    **dict.fromkeys(("attention.v_current", "attention.v_delayed"), "attention.qkv"),
    **dict.fromkeys(("mlp.gate", "mlp.up"), "mlp.gate_up"),
    **dict.fromkeys(("shared.gate", "shared.up"), "shared.gate_up"),
    **dict.fromkeys(("cross.k", "cross.v"), "cross.kv"),
    **dict.fromkeys(("mla.q_down", "mla.kv_down"), "mla.qkv_down"),
    **dict.fromkeys(("csa.q_down", "csa.kv"), "csa.qkv_down"),
    **dict.fromkeys(("csa.compress.kv", "csa.compress.gate"), "csa.compress"),
    **dict.fromkeys(("csa.index.kv", "csa.index.gate"), "csa.index.compress"),
    **dict.fromkeys((f"delta.{part}" for part in ("q", "k", "v", "qkv", "z", "qkvz", "g")), "delta.in"),
    **dict.fromkeys((f"delta.{part}" for part in ("a", "b", "ba", "f")), "delta.gates"),
    **dict.fromkeys(("mamba.in", "mamba.in_bc", "mamba.in_dt"), "mamba.in"),
    **dict.fromkeys(("hybrid_mamba.in", "hybrid_mamba.in_bc", "hybrid_mamba.in_dt"), "hybrid_mamba.in"),
    **dict.fromkeys(("lightning.qkv", "lightning.gate"), "lightning.in"),
}
"""Role → the product it is a part of, where engines merge those of the same input (vLLM's models, Apache-2.0)."""

REDUCED = (
    *(f"{part}.o" for part in ("attention", "cross", "mla", "csa")),
    *(f"{part}.out" for part in ("mamba", "hybrid_mamba", "delta", "lightning", "conv", "lru", "rwkv", "mlstm")),
    *(f"{part}.down" for part in ("mlp", "shared", "experts")),
    "mamba.x",
    "hybrid_mamba.x",
)
"""Roles that tensor parallelism cuts along the input, so that the ranks' results are added."""

LAST = frozenset(FUSED.get(role, role) for role in REDUCED) - {"mamba.x", "hybrid_mamba.x"}
"""Products whose output goes back to the residual."""


class Piece(NamedTuple):
    """One tensor on one rank: bytes as the rank keeps it; lent: it stands with another layer."""

    tensor: Tensor
    bytes: int
    arithmetic: Arithmetic
    quantized: bool
    lent: bool


def _arithmetic(row: TensorRow, index: int, deployment: Deployment) -> Arithmetic:
    model, device, dtype = deployment.model, deployment.accelerator, deployment.dtype
    precision = model.precision
    base = plain(device, dtype)
    if not any(part.format != precision.dtype for part in row.parts) or row.tensor.format is not None:
        return base
    if isinstance(precision.scheme, PerTensor) or not reached(precision, row.tensor):
        return base
    if model.measured is not None and row.parts[0].format.name.startswith("float8"):
        from narrows.precision.floats import Fp8Scaled

        return of_scheme(Fp8Scaled(), device, dtype)
    return of_scheme(model.shares(row.name, row.tensor, index)[0].scheme, device, dtype)


def layer_pieces(layer: Layer, index: int, deployment: Deployment) -> tuple[Piece, ...]:
    """The tensors that layer `index` runs with, in the order in which it states them."""
    model = deployment.model
    applied = layer.applied()
    rows = [(row, False) for row in model.layer_rows(layer, (index,))]
    if layer.borrowed:
        rows += [(row, True) for row in model.lent_rows(layer)]
    bytes_of: dict[_Key, int] = {}
    about: dict[_Key, tuple[Arithmetic, bool, bool]] = {}
    for row, lent in rows:
        key = _key(row.tensor)
        bytes_of[key] = bytes_of.get(key, 0) + row.count * resident_of(row, deployment)
        if key not in about:
            quantized = any(part.format != model.precision.dtype for part in row.parts) and row.tensor.format is None
            about[key] = (_arithmetic(row, layer.owner or 0 if lent else index, deployment), quantized, lent)
    times = Counter(_key(tensor) for tensor in applied)
    return tuple(
        Piece(tensor, bytes_of[_key(tensor)] // times[_key(tensor)], *about[_key(tensor)]) for tensor in applied
    )


_Key = tuple[str, tuple[int, ...], str]


def _key(tensor: Tensor) -> _Key:
    """What tells tensors of a layer apart; equal ones (of two mixers in turn) are stored alike."""
    return tensor.role, tensor.shape, tensor.use


def same_storage(layer: Layer, indices: Sequence[int], deployment: Deployment) -> list[tuple[tuple[Piece, ...], int]]:
    """Equal layers by how their tensors are stored: (tensors, how many layers)."""
    alike: dict[object, list[int]] = {}
    how = _storage(layer, indices[0], deployment.model)
    for index in indices:
        alike.setdefault(how(index), []).append(index)
    return [(layer_pieces(layer, some[0], deployment), len(some)) for some in alike.values()]


def _storage(layer: Layer, first: int, model: ModelSpec) -> Callable[[int], object]:
    """What tells how the tensors of a layer are stored, by its index: looked up, since a model has many layers."""
    precision, scheme = model.precision, model.precision.scheme
    if model.measured is not None:
        return lambda index: tuple(model.layer_rows(layer, (index,)))
    if isinstance(scheme, PerTensor):
        roles = [tensor.role for tensor in layer.tensors()]
        return lambda index: tuple(scheme.of(role, index) for role in roles)
    if scheme is UNQUANTIZED:
        return lambda index: None
    names = {row.tensor.role: row.name for row in model.layer_rows(layer, (first,))}
    found = [(names[tensor.role], tensor) for tensor in layer.tensors() if reached(precision, tensor)]
    return lambda index: tuple(model.shares(name, tensor, index) for name, tensor in found)


def one_use(piece: Piece) -> Piece:
    """What one layer runs of copies without a choice between them: its own (Zamba2's adapters of a shared block)."""
    copies = piece.tensor.copies
    if copies == 1 or piece.tensor.active is not None:
        return piece
    return piece._replace(tensor=msgspec.structs.replace(piece.tensor, copies=1), bytes=piece.bytes // copies)


def is_matrix(tensor: Tensor) -> bool:
    """Whether it multiplies."""
    return tensor.use in ("linear", "plain")


def matrix(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one of its copies. Convolutions read a window of inputs; blocks stand side by side."""
    shape = tensor.shape
    if tensor.role in ("lru.input_gate", "lru.recurrent_gate"):
        return shape[-1], prod(shape[:-1])
    return prod(shape[1:]), shape[0]


def on_rank(tensor: Tensor, deployment: Deployment) -> tuple[int, int]:
    """(inputs, outputs) on one rank."""
    k, n = matrix(tensor)
    _, cut = ranks_of(tensor, deployment)
    if tensor.role in REDUCED:
        return pieces(k, tensor.shards, cut), n
    return k, pieces(n, tensor.shards, cut)


def products(
    found: Iterable[Piece],
    deployment: Deployment,
    rows: Rows = "tokens",
    fixed: int = 0,
    prefix: str = "",
) -> list[MatMul | ChosenMatMul]:
    """The products of these tensors, those fused that read the same input in the same precision; biases go along."""
    found = list(found)
    element = deployment.dtype.bits // 8
    groups: dict[tuple[str, int, Arithmetic], list[Piece]] = {}
    biases = {piece.tensor.role: piece.bytes for piece in found if piece.tensor.role.endswith(".bias")}
    chosen = []
    for piece in found:
        tensor = piece.tensor
        if not is_matrix(tensor):
            continue
        name = prefix + FUSED.get(tensor.role, tensor.role)
        k, n = on_rank(tensor, deployment)
        if tensor.copies > 1 and tensor.active is not None:
            chosen.append(
                ChosenMatMul(
                    name,
                    rows,
                    k,
                    n,
                    tensor.copies,
                    tensor.active,
                    piece.arithmetic.precision,
                    piece.bytes,
                    element,
                    8 * piece.bytes / (k * n * tensor.copies),
                    piece.arithmetic.activation_bits,
                    fixed,
                )
            )
            continue
        groups.setdefault((name, k, piece.arithmetic), []).append(piece)
    made: list[MatMul | ChosenMatMul] = list(chosen)
    for (name, k, arithmetic), members in groups.items():
        n = sum(on_rank(piece.tensor, deployment)[1] * piece.tensor.copies for piece in members)
        held = sum(piece.bytes for piece in members)
        bias = sum(biases.pop(f"{piece.tensor.role}.bias", 0) for piece in members)
        made.append(
            MatMul(
                name,
                rows,
                k,
                n,
                arithmetic.precision,
                held + bias,
                element,
                8 * held / (k * n),
                arithmetic.activation_bits,
                fixed=fixed,
                ready=arithmetic.scale_known and deployment.engine.compiles and deployment.graphs,
            )
        )
    return made


def vectors(found: Iterable[Piece]) -> int:
    """Bytes of what does not multiply and went along with no product: small parameters, kernels of convolutions."""
    found = list(found)
    matrices = {piece.tensor.role for piece in found if is_matrix(piece.tensor) and piece.tensor.copies == 1}
    return sum(
        piece.bytes
        for piece in found
        if piece.tensor.use in ("vector", "buffer")
        and piece.tensor.role not in GATHERED
        and piece.tensor.role.removesuffix(".bias") not in matrices
    )


GATHERED = ("router.by_token",)
"""Buffers that are gathered by row."""
