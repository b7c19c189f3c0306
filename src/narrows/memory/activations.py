"""The activation peak: what a step needs beside weights and cache, as the engine measures it before sizing the cache.

The engine runs one forward pass of its largest batch, then samples once for its largest number of sequences. The two
do not overlap, so the peak is the larger. All figures are elements or bytes of one rank.
"""

from __future__ import annotations

import msgspec

from narrows.calibration import Coefficients
from narrows.deployment import Deployment
from narrows.models.feedforward import Dense
from narrows.models.mixers import Attention
from narrows.models.spec import Layer, Tower
from narrows.step import flows

_NATIVE_BELOW = (8, 0)
"""Compute capability from which the fused samplers run; older devices sort (seen on T4 with vLLM 0.22)."""


class Peak(msgspec.Struct, frozen=True):
    """Bytes alive at the peak of each moment. rows: sequences that are sampled; sampler: how."""

    forward: int
    sampling: int
    vision: int
    rows: int
    sampler: str

    @property
    def largest(self) -> int:
        """The peak."""
        return max(self.forward, self.sampling, self.vision)


def second_runner(deployment: Deployment) -> bool:
    """Whether the engine's second model runner runs this model."""
    which = deployment.engine.second_runner
    if which != "dense":
        return which == "all"
    return all(
        isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, Dense)
        for layer, _ in deployment.model.kinds
    )


def graphs_inside(deployment: Deployment) -> bool:
    """Whether memory of CUDA graphs comes out of the engine's share."""
    engine = deployment.engine
    return engine.graphs_in_budget and (engine.second_runner_graphs or not second_runner(deployment))


def sampler_of(deployment: Deployment) -> str:
    """What sampling is profiled: `sort`, `triton`, `flashinfer`, `second_runner`, `plain`, or `none` where it is not.

    On older devices the first runner sorts, and the second one does without FlashInfer (log of v0.30.0 on a T4).
    """
    capability = deployment.accelerator.capability
    old = capability is not None and capability < _NATIVE_BELOW
    if second_runner(deployment):
        if not deployment.engine.second_runner_sampler:
            return "none"
        return "plain" if old else "second_runner"
    return "sort" if old else deployment.engine.sampler


def gathered_bytes(deployment: Deployment, rows: int) -> int:
    """The logits of all ranks on each of them, gathered and put in order: twice rows × vocabulary, in 16 bits.

    Source: vLLM's tensor_model_parallel_all_gather (Apache-2.0). The second runner samples on each rank's share.
    """
    if deployment.tensor_parallel == 1 or sampler_of(deployment) in ("none", "plain", "second_runner"):
        return 0
    return 2 * rows * deployment.model.vocab * (deployment.dtype.bits // 8)


def dense_elements(layer: Layer, deployment: Deployment) -> int:
    """Elements per token alive at the widest place of a layer outside its experts, on one rank.

    A part of a layer (mixer, feed-forward) keeps what its products have written until its last one, and what that
    one reads: projections and the output of attention; gate, up and their product. Absorbed products and their latent
    output live inside attention, which engines do not run while they profile (vLLM's profile_run gives it no metadata).
    Beside them stand three vectors of the hidden size: the residual, the part's input and its output.
    Checked: Llama-3.1-8B has 3 × 14336 + 3 × 4096 = 55,296 elements, 110,592 B; the peak grew by 110,800 B per
    profiled token between the runs of vllm-project/vllm#10517.
    """
    widest = alive = attended = 0
    inside = False
    for flow in flows(layer, deployment):
        if flow.kind == "product":
            alive += flow.writes
        elif flow.kind == "absorbed":
            inside = True
        elif flow.kind == "attention":
            # kernels that share one softmax write one output
            attended = max(attended, flow.writes)
        else:
            read = max(flow.reads, 0 if inside else attended) if flow.kind == "last" else 0
            widest = max(widest, alive + read)
            alive = attended = 0
            inside = False
    return max(widest, alive) + 3 * layer.hidden


def expert_elements(layer: Layer, deployment: Deployment) -> int:
    """Elements per token of the workspaces of a layer's fused experts on one rank; 0 without experts."""
    return max((flow.workspace for flow in flows(layer, deployment)), default=0)


def _vision_elements(tower: Tower) -> int:
    """Elements per patch alive in a vision tower: twice the widest linear output of its layers and three times its
    input. What stands once (embeddings, mergers, heads, projectors) works on fewer tokens than there are patches.
    """
    if not tower.served or not tower.name.endswith("tower"):
        return 0
    linears = [
        (n, tensor)
        for _, n, tensor in tower.tensors
        if tensor.use != "vector" and len(tensor.shape) == 2 and "merger" not in tensor.role
    ]
    repeated = [tensor for n, tensor in linears if n > 1] or [tensor for _, tensor in linears]
    if not repeated:
        return 0
    widest = max(repeated, key=lambda tensor: tensor.shape[0])
    return 2 * widest.shape[0] + 3 * widest.shape[1]


def _serving(deployment: Deployment) -> list[Tower]:
    """Towers that look at pictures; an encoder that reads the prompt has its peak with the decoder's."""
    return [tower for tower in deployment.model.towers if tower.served and not tower.reads]


def encoded_tokens(deployment: Deployment, tower: Tower) -> int:
    """Tokens of images that are profiled: a step of them, but at least one image of the largest size."""
    return max(deployment.max_num_batched_tokens, tower.largest)


def vision_bytes(deployment: Deployment, tower: Tower, coefficients: Coefficients | None = None) -> float:
    """The peak of a vision tower, whole on each rank.

    Towers that rotate queries and keys do so in 32 bits, with copies: `vision_copies` says how much that comes to.
    """
    copies = coefficients["vision_copies"].value if tower.rotary and coefficients is not None else 1.0
    patches = encoded_tokens(deployment, tower) * tower.patches
    return patches * _vision_elements(tower) * copies * deployment.dtype.bits // 8


def _images_bytes(deployment: Deployment) -> int:
    """What vision towers hand to the decoder: it is there while the decoder is profiled.

    Source: vLLM's profile_run (Apache-2.0), its encoder cache. Deepstack towers hand over a vector for each depth.
    """
    encoders = [tower for tower in _serving(deployment) if _vision_elements(tower)]
    width = deployment.model.hidden * deployment.dtype.bits // 8
    return sum(encoded_tokens(deployment, tower) * (1 + deepstack_levels(tower)) * width for tower in encoders)


def deepstack_levels(tower: Tower) -> int:
    """Depths of a vision tower whose output goes to the decoder beside the last one's."""
    return sum(repeats for _, repeats, tensor in tower.tensors if tensor.role == _DEEPSTACK)


_DEEPSTACK = "vision.deepstack_merger_list.{}.linear_fc2"


def _encoder_elements(tower: Tower, tp: int) -> int:
    """Elements per token of the prompt alive in an encoder: its widest linear output, twice, and three inputs."""
    linears = [tensor for _, _, tensor in tower.tensors if tensor.use == "linear"]
    return max((2 * t.shape[0] // min(tp, t.shards) + 3 * t.shape[1] for t in linears), default=0)


def peak(deployment: Deployment, coefficients: Coefficients) -> Peak:
    """The activation peak of one rank, moment by moment."""
    model, tp = deployment.model, deployment.tensor_parallel
    width = deployment.dtype.bits // 8
    tokens = deployment.max_num_batched_tokens
    dense, moe = coefficients["forward_copies"].value, coefficients["expert_copies"].value
    layers = [layer for layer, _ in model.kinds]
    # a long step goes through the experts piece by piece
    at_once = deployment.engine.experts_at_once or tokens
    moe *= min(1.0, at_once / tokens)
    forward = max(
        dense_elements(layer, deployment) * dense + expert_elements(layer, deployment) * moe for layer in layers
    )
    reading = [_encoder_elements(tower, tp) for tower in model.towers if tower.served and tower.reads]
    forward = max(forward, dense * max(reading, default=0))
    rows = min(deployment.max_num_seqs, tokens)
    sampler = sampler_of(deployment)
    samples = sampler != "none"
    per_logit = coefficients[f"sampler_{sampler}_bytes_per_logit"].value if samples else 0.0
    if sampler in ("plain", "second_runner"):
        per_logit /= tp
    images = _images_bytes(deployment)
    return Peak(
        forward=int(tokens * forward * width) + images,
        sampling=int(rows * model.vocab * per_logit)
        + (gathered_bytes(deployment, rows) if samples else 0)
        + tokens * model.hidden * width
        + images,
        vision=max((int(vision_bytes(deployment, tower, coefficients)) for tower in _serving(deployment)), default=0),
        rows=rows,
        sampler=sampler,
    )


def captures(deployment: Deployment) -> int:
    """CUDA graphs that are captured: one per batch size up to twice the sequences, at most 512, and one more per
    size up to the sequences for decode alone; older versions have one of the two.

    Sizes: 1, 2, 4, then every 8 up to 256, then every 16 (before 0.12 every 8). Source: vLLM's logs ("PIECEWISE=51
    (largest=512), FULL=35 (largest=256)").
    """
    which = deployment.engine.captured
    step = 16 if which == "both" else 8

    def sizes(largest: int) -> int:
        small = sum(1 for size in (1, 2, 4) if size <= largest)
        return small + min(largest, 256) // 8 + max(0, largest - 256) // step

    if not deployment.graphs:
        return 0
    rows = min(deployment.max_num_seqs, deployment.max_num_batched_tokens)
    if not deployment.engine.captures_follow_sequences:
        rows = min(512, deployment.max_num_batched_tokens)
    decode = 0 if which == "pieces" else sizes(min(rows, 512))
    return decode if which == "decode" else sizes(min(2 * rows, 512)) + decode
