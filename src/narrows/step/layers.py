"""One layer as kernels on one rank: its mixers, feed-forward part, norms, what stands beside, and the collectives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from narrows.models.feedforward import Beside, ChannelMix, Dense, MixtureOfExperts
from narrows.models.mixers import (
    Chain,
    ConvolvedAttention,
    CrossAttention,
    LatentAttention,
    Looped,
    Parallel,
    RememberingAttention,
)
from narrows.models.spec import Layer
from narrows.step.cores import core
from narrows.step.kernels import ExpertsKernel, Kernel, MatMul, Streaming, Talk
from narrows.step.load import Sight
from narrows.step.site import Site
from narrows.step.tensors import LAST, Piece, on_rank, one_use, products, vectors

_FEED_FORWARD = ("mlp.", "experts.", "shared.", "shared_gate", "router", "latent.")


def idle(layer: Layer) -> bool:
    """Whether the layer runs only with an encoder's output, which a text has not (Llama 3.2 Vision)."""
    return isinstance(layer.mixer, CrossAttention) and not layer.mixer.cached


def turns(layer: Layer) -> int:
    """How often the layer runs for every token."""
    return layer.mixer.loops if isinstance(layer.mixer, Looped) else 1


def quantized_inputs(made: Iterable[Kernel], site: Site) -> list[Kernel]:
    """The products, each behind the kernel that quantizes its input where its arithmetic asks for that.

    None runs where the scale of the input is known beforehand and the engine compiles its steps: norms, activations
    and attention then write what the product reads (Inductor; vLLM's passes of fusion, TensorRT-LLM's plugins).
    """
    found: list[Kernel] = []
    for kernel in made:
        if isinstance(kernel, MatMul) and kernel.activation_bits < 8 * site.element and not kernel.ready:
            found.append(
                Streaming(
                    f"{kernel.name}.quantize",
                    kernel.rows,
                    kernel.k,
                    kernel.k * site.element,
                    kernel.k * kernel.activation_bits // 8,
                    kernel.precision,
                    fixed=kernel.fixed,
                )
            )
        found.append(kernel)
    return found


def layer_kernels(layer: Layer, found: tuple[Piece, ...], site: Site) -> list[Kernel]:
    """All kernels of one layer, in about the order in which they run. found: its tensors."""
    left = [one_use(piece) for piece in found]
    made: list[Kernel] = []
    mixer: Any = layer.mixer
    norms = [piece for piece in left if piece.tensor.role.startswith("norm.")]
    norm_bytes = sum(piece.bytes for piece in norms)
    left = [piece for piece in left if not piece.tensor.role.startswith("norm.")]
    moved = 2 * layer.hidden * site.element
    for i in range(len(layer.norms.names)):
        # a norm is fused with the sum before it: it reads the residual and what is added, and writes both back
        weights = norm_bytes if len(layer.norms.names) == 1 else norm_bytes // len(layer.norms.names)
        weights += norm_bytes - weights * len(layer.norms.names) if i == 0 else 0
        made.append(Streaming("norm", "tokens", layer.hidden, moved, moved, site.base.precision, weights))
    if not layer.norms.names and norm_bytes:
        made.append(Streaming("norm", "tokens", layer.hidden, moved, moved, site.base.precision, norm_bytes))
    parts = (
        mixer.parts
        if isinstance(mixer, Chain)
        else (mixer.attention, mixer.recurrent)
        if isinstance(mixer, Parallel)
        else (mixer,)
    )
    for part in parts:
        mine, left = _taken(_renamed(part, mixer), left)
        made += _mixer(part, mine, site, layer.hidden)
    if layer.one_sum:  # that of the feed-forward part is of both
        made = [kernel for kernel in made if not isinstance(kernel, Talk)]
    feed_forward = [piece for piece in left if piece.tensor.role.startswith(_FEED_FORWARD)]
    if layer.feed_forward is not None:
        mine, left = _taken([(t.role, t.shape) for t in layer.feed_forward.tensors()], left)
        del feed_forward
        made += _feed_forward(layer.feed_forward, mine, site)
    beside = quantized_inputs(products(left, site.deployment), site)
    made += beside
    small = vectors(left)
    if small:
        made.append(Streaming("beside", "tokens", layer.hidden, moved, moved, site.base.precision, small))
    return made


def _renamed(part: Any, mixer: Any) -> list[tuple[str, tuple[int, ...]]]:
    """(role, shape) of a part's tensors, as its layer names them."""
    found = []
    for tensor in part.tensors():
        role = tensor.role
        for old, new in mixer.renamed if isinstance(mixer, Chain) else ():
            role = new + role.removeprefix(old) if role.startswith(old) else role
        found.append((role, tensor.shape))
    return found


def _taken(keys: list[tuple[str, tuple[int, ...]]], left: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The pieces of these keys, each once, and what is left."""
    left, mine = list(left), []
    for key in keys:
        for i, piece in enumerate(left):
            if (piece.tensor.role, piece.tensor.shape) == key:
                mine.append(left.pop(i))
                break
    return mine, left


def _mixer(part: Any, mine: list[Piece], site: Site, hidden: int) -> list[Kernel]:
    """Products into the mixer, its core, products out of it, and the sum over ranks."""
    if isinstance(part, CrossAttention) and not part.cached:
        return []
    up, up_bytes = None, 0
    inside: list[Kernel] = []
    if isinstance(part, LatentAttention):
        ups = [piece for piece in mine if piece.tensor.role == "mla.kv_up"]
        sight = Sight(part.window or 0, top=part.index_top_k)
        (product,) = products(ups, site.deployment)
        assert isinstance(product, MatMul)
        up = msgspec.structs.replace(product, sight=sight)
        heads = max(1, -(-part.heads // site.tp))
        up_bytes = heads * (part.nope + part.value) * part.kv_rank * site.element
        if not ups[0].quantized:
            up_bytes = ups[0].bytes
        mine = [piece for piece in mine if piece.tensor.role != "mla.kv_up"]
    elif isinstance(part, CrossAttention):
        keys = [piece for piece in mine if piece.tensor.role.startswith(("cross.k", "cross.v"))]
        keys = [piece for piece in keys if "norm" not in piece.tensor.role]
        mine = [piece for piece in mine if piece not in keys]
        inside += quantized_inputs(products(keys, site.deployment, "encoder", part.tokens or 0), site)
    elif isinstance(part, RememberingAttention):
        again = [p for p in mine if p.tensor.role in ("attention.k", "attention.v", "attention.relative")]
        mine = [piece for piece in mine if piece not in again]
        inside += quantized_inputs(products(again, site.deployment, "keys"), site)
    elif isinstance(part, ConvolvedAttention):
        tables = [piece for piece in mine if piece.tensor.role == "attention.relative_table"]
        mine = [piece for piece in mine if piece not in tables]
        inside += [_by_head(piece, max(1, part.attention.heads // site.tp), site) for piece in tables]
    made = products(mine, site.deployment)
    before = [kernel for kernel in made if kernel.name not in LAST]
    after = [kernel for kernel in made if kernel.name in LAST]
    reduced = [piece for piece in mine if piece.tensor.role in LAST and piece.tensor.shards > 1]
    kernels = [
        *quantized_inputs(before, site),
        *inside,
        *_shared_norm(part, site),
        *core(part, site, vectors(mine), up, up_bytes),
        *quantized_inputs(after, site),
    ]
    if site.tp > 1 and reduced:
        name = reduced[0].tensor.role.partition(".")[0]
        width = sum(on_rank(piece.tensor, site.deployment)[1] for piece in reduced)
        kernels.append(_all_reduce(name, width, site))
    return kernels


def _by_head(piece: Piece, heads: int, site: Site) -> MatMul:
    """A table that each head multiplies its own channels with: [tokens × heads, channels] × [channels, positions]."""
    (product,) = products([piece], site.deployment)
    assert isinstance(product, MatMul)
    channels, positions = piece.tensor.shape
    return msgspec.structs.replace(product, k=channels, n=positions, copies=heads)


def _shared_norm(part: Any, site: Site) -> list[Kernel]:
    """A norm over all heads needs the squares of all ranks: two sums in 32 bits per token, of queries and of keys."""
    if site.tp == 1 or not getattr(part, "qk_norm_across", False):
        return []
    return [Talk("attention.norm_all_reduce", "all_reduce", site.tp, "tokens", 8, site.base.precision)]


def _all_reduce(name: str, width: int, site: Site) -> Talk:
    return Talk(f"{name}.all_reduce", "all_reduce", site.tp, "tokens", width * site.element, site.base.precision)


def _feed_forward(part: Any, mine: list[Piece], site: Site) -> list[Kernel]:
    """Dense parts, a mixture of experts, or both."""
    if isinstance(part, Dense | ChannelMix):
        return _dense(mine, site)
    if isinstance(part, MixtureOfExperts):
        return _experts(part, mine, site)
    assert isinstance(part, Beside)
    made: list[Kernel] = []
    for each in part.dense:
        own, mine = _taken([(t.role, t.shape) for t in each.tensors()], mine)
        made += _dense(own, site)
    return made + _experts(part.experts, mine, site)


def _activation(name: str, mine: list[Piece], site: Site, weights: int) -> list[Kernel]:
    """The activation between up and down: it reads gate and up and writes their product."""
    ups = [piece for piece in mine if piece.tensor.role in (f"{name}.gate", f"{name}.up")]
    if not ups:
        return []
    width = on_rank(ups[0].tensor, site.deployment)[1]
    each = width * site.element
    kernel = Streaming(f"{name}.activation", "tokens", width, len(ups) * each, each, site.base.precision, weights)
    return [kernel]


def _dense(mine: list[Piece], site: Site, name: str = "mlp", alone: bool = True) -> list[Kernel]:
    made = products(mine, site.deployment)
    down = [kernel for kernel in made if kernel.name == f"{name}.down"]
    kernels = [
        *quantized_inputs((kernel for kernel in made if kernel not in down), site),
        *_activation(name, mine, site, vectors(mine)),
        *quantized_inputs(down, site),
    ]
    if alone and site.tp > 1 and any(p.tensor.role == f"{name}.down" and p.tensor.shards > 1 for p in mine):
        kernels.append(_all_reduce(name, down[0].n, site))
    return kernels


def _experts(part: MixtureOfExperts, mine: list[Piece], site: Site) -> list[Kernel]:
    """Router, shared expert, routed experts; replicas of attention gather their tokens for them and scatter sums."""
    deployment = site.deployment
    routed = [p for p in mine if p.tensor.role.startswith("experts.") and p.tensor.use != "built"]
    shared = [p for p in mine if p.tensor.role.startswith("shared.")]
    others = [p for p in mine if not p.tensor.role.startswith(("experts.", "shared."))]
    last = [p for p in others if p.tensor.role == "latent.out"]
    first = [p for p in others if p not in last]
    made: list[Kernel] = [*quantized_inputs(products(first, deployment), site)]
    small = vectors(first)
    experts = part.router_rows or part.experts
    made.append(
        Streaming(
            "router.choose",
            "tokens",
            experts,
            experts * site.element,
            8 * part.top_k,
            site.base.precision,
            small,
        )
    )
    replicas, hidden = deployment.attention_data_parallel, part.latent or part.hidden
    row = hidden * site.element
    experts_kernel = _routed(part, routed, site)
    bits = experts_kernel.activation_bits
    dispatch, combine = _exchange(part, row, min(hidden * bits // 8, row), site)
    made += dispatch
    if bits < 8 * site.element:
        moved, written = replicas * hidden * site.element, replicas * hidden * bits // 8
        made.append(Streaming("experts.quantize", "tokens", hidden, moved, written, experts_kernel.precision))
    made += [experts_kernel, *combine]
    made += quantized_inputs(products(last, deployment), site)
    if shared:
        made += _dense(shared, site, "shared", alone=False)
    if site.tp > 1:
        made.append(_all_reduce("experts", part.hidden, site))
    return made


def _exchange(part: MixtureOfExperts, row: int, sent: int, site: Site) -> tuple[list[Kernel], list[Kernel]]:
    """How replicas of attention bring their tokens to the experts, and sums back; row, sent: bytes of a token's hidden
    state, and as it is multiplied.

    Up to as many replicas as a token has experts, all tokens are gathered everywhere, and sums scattered (vLLM's
    `allgather_reducescatter`). Beyond (wide expert parallelism), a token goes to those ranks alone that hold its
    experts, in the precision of the products, and comes back in 16 bits (DeepEP, and TensorRT-LLM's over NVLink).
    """
    replicas, precision = site.deployment.attention_data_parallel, site.base.precision
    if replicas == 1:
        return [], []
    if replicas <= part.top_k:
        return (
            [Talk("experts.dispatch", "all_gather", replicas, "tokens", row, precision)],
            [Talk("experts.combine", "reduce_scatter", replicas, "tokens", row * replicas, precision)],
        )
    # ranks that hold any of `top_k` experts drawn at random
    copies = replicas * (1 - (1 - 1 / replicas) ** part.top_k)
    return (
        [Talk("experts.dispatch", "all_to_all", replicas, "tokens", round(copies * sent), precision)],
        [Talk("experts.combine", "all_to_all", replicas, "tokens", round(copies * row), precision)],
    )


def _routed(part: MixtureOfExperts, routed: list[Piece], site: Site) -> ExpertsKernel:
    deployment = site.deployment
    matrices = [piece for piece in routed if piece.tensor.use == "linear"]
    here = -(-part.experts // deployment.expert_parallel)
    up = next(piece for piece in matrices if piece.tensor.role == "experts.up")
    inner, width = on_rank(up.tensor, deployment)
    elements = len(matrices) * inner * width * here
    return ExpertsKernel(
        "experts",
        inner,
        width,
        here,
        part.experts + part.idle,
        part.top_k,
        len(matrices),
        up.arithmetic.precision,
        sum(piece.bytes for piece in routed),
        site.element,
        8 * sum(piece.bytes for piece in matrices) / elements,
        up.arithmetic.activation_bits,
        deployment.attention_data_parallel,
    )
