"""What stands around the layers as kernels: embedding, final norm, head, sampling, encoders that read the prompt."""

from __future__ import annotations

from collections.abc import Iterable

from narrows.deployment import Deployment
from narrows.deployment.share import resident_of
from narrows.models.mixers import Chain, CrossAttention
from narrows.models.spec import Tower
from narrows.models.tensors import Tensor, TensorRow
from narrows.step.arithmetic import plain
from narrows.step.cores import PHASES
from narrows.step.kernels import AttentionKernel, Kernel, Streaming, Talk
from narrows.step.layers import quantized_inputs
from narrows.step.load import Sight
from narrows.step.site import Site
from narrows.step.tensors import Piece, is_matrix, on_rank, products

SAMPLED = ("head", "transform")
"""Prefixes of the roles that run for sampled rows only."""
UNUSED = ("pooler",)
"""Prefixes of the roles that no step of generation runs."""


def outer_piece(row: TensorRow, deployment: Deployment) -> Piece:
    """A tensor outside the layers on one rank; quantized heads and towers are unpacked."""
    base = plain(deployment.accelerator, deployment.dtype)
    return Piece(row.tensor, row.count * resident_of(row, deployment), base, False, False)


def encoder_tokens(deployment: Deployment) -> int:
    """Tokens that the model's encoder always gives; 0: as many as the sequence has."""
    for layer, _ in deployment.model.kinds:
        for part in layer.mixer.parts if isinstance(layer.mixer, Chain) else (layer.mixer,):
            if isinstance(part, CrossAttention) and part.tokens:
                return part.tokens
    return 0


def before_kernels(rows: Iterable[TensorRow], site: Site) -> list[Kernel]:
    """Rows gathered from tables, and what is projected or normed before the first layer."""
    deployment = site.deployment
    pieces = [outer_piece(row, deployment) for row in rows if row.tensor.use != "table"]
    model = deployment.model
    width = (model.embedding_width or model.hidden) * site.element
    made: list[Kernel] = [
        Streaming("embedding", "tokens", width // site.element, width, width, site.base.precision, _small(pieces))
    ]
    encoder = [piece for piece in pieces if piece.tensor.role.startswith("embedding.encoder")]
    made += products(encoder, deployment, "encoder", encoder_tokens(deployment))
    made += products([piece for piece in pieces if piece not in encoder], deployment)
    if site.tp > 1:
        # each rank gathers from its rows of the table
        made.append(Talk("embedding.all_reduce", "all_reduce", site.tp, "tokens", width, site.base.precision))
    return made


def _small(pieces: list[Piece]) -> int:
    matrices = {piece.tensor.role for piece in pieces if is_matrix(piece.tensor)}
    return sum(
        piece.bytes
        for piece in pieces
        if not is_matrix(piece.tensor) and piece.tensor.role.removesuffix(".bias") not in matrices
    )


def after_kernels(rows: Iterable[TensorRow], embedding: TensorRow | None, site: Site) -> list[Kernel]:
    """Final norm, head and sampling. embedding: the row of a tied head."""
    deployment, model = site.deployment, site.deployment.model
    pieces = [outer_piece(row, deployment) for row in rows if row.tensor.use != "table"]
    pieces = [piece for piece in pieces if not piece.tensor.role.startswith(UNUSED)]
    sampled = [piece for piece in pieces if piece.tensor.role.startswith(SAMPLED)]
    others = [piece for piece in pieces if piece not in sampled]
    moved, element = 2 * model.hidden * site.element, site.element
    made: list[Kernel] = [Streaming("norm", "tokens", model.hidden, moved, moved, site.base.precision, _small(others))]
    made += products(others, deployment)
    if embedding is not None and not any(piece.tensor.role == "head" for piece in sampled):
        row = embedding.tensor
        tied = Tensor("head", row.shape, "plain", row.shards, row.copies)
        sampled.append(outer_piece(embedding, deployment)._replace(tensor=tied))
    heads = products(sampled, deployment, "sampled")
    made += quantized_inputs(heads, site)
    extra = _small(sampled)
    if heads:
        vocab = sum(kernel.n for kernel in heads if kernel.name == "head") or model.vocab
        if site.tp > 1:
            made.append(Talk("head.all_gather", "all_gather", site.tp, "sampled", vocab * element, site.base.precision))
        whole = vocab * site.tp
        made.append(
            Streaming("sampling", "sampled", whole, whole * (element + 4), whole * 4, site.base.precision, extra)
        )
    return made


_QUERIES = ("attention.q", "q_proj", "linear_q")
"""How the roles of an encoder's query projections end."""


def _sees_all(queries: Tensor, fixed: int, site: Site) -> list[Kernel]:
    """Attention of an encoder, as wide as its queries: every token sees every other."""
    heads = max(1, queries.shards // site.tp)
    dim = on_rank(queries, site.deployment)[1] // heads
    sight = Sight(encoder=True, both_ways=True, fixed=fixed)
    return [
        AttentionKernel(
            "encoder.core",
            phase,
            sight,
            heads,
            heads,
            dim,
            dim,
            site.base.precision,
            8 * site.element,
            0,
            site.element,
            from_cache=False,
            key_wide=2 * dim * heads,
            naive=site.naive,
        )
        for phase in PHASES
    ]


def encoder_kernels(tower: Tower, rows: Iterable[TensorRow], site: Site) -> list[tuple[Kernel, int]]:
    """An encoder that reads the prompt: every product for each of its tokens, and attention that sees them all.

    Convolutions that shorten a sound are counted as if they ran once per token that they leave.
    """
    deployment, fixed = site.deployment, encoder_tokens(site.deployment)
    made: list[tuple[Kernel, int]] = []
    small = 0
    together: dict[int, list[Piece]] = {}
    for row in rows:
        piece = outer_piece(row, deployment)
        if is_matrix(row.tensor):
            together.setdefault(row.count, []).append(piece._replace(bytes=piece.bytes // row.count))
        else:
            small += piece.bytes if row.tensor.use != "table" else 0
    for count, pieces in together.items():
        kernels = quantized_inputs(products(pieces, deployment, "encoder", fixed, "encoder."), site)
        made += [(kernel, count) for kernel in kernels]
        queries = [piece.tensor for piece in pieces if piece.tensor.role.endswith(_QUERIES)]
        made += [(kernel, count) for tensor in queries for kernel in _sees_all(tensor, fixed, site)]
    if small:
        width = deployment.model.hidden
        moved = 2 * width * site.element
        made.append(
            (Streaming("encoder.small", "encoder", width, moved, moved, site.base.precision, small, 0, fixed), 1)
        )
    return made
