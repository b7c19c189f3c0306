"""The experts of a model, in whichever of its layers they stand."""

from __future__ import annotations

from narrows.models.feedforward import Beside, FeedForward, MixtureOfExperts
from narrows.models.spec import ModelSpec
from narrows.models.tensors import Tensor


def mixture_of(part: FeedForward | None) -> MixtureOfExperts | None:
    """The mixture of experts that a feed-forward part is, or has beside a dense one; None where it has none."""
    found = part.experts if isinstance(part, Beside) else part
    return found if isinstance(found, MixtureOfExperts) else None


def has_experts(model: ModelSpec) -> bool:
    """Whether a router sends tokens to experts in any layer."""
    return any(mixture_of(layer.feed_forward) is not None for layer, _ in model.kinds)


def expert_tensors(model: ModelSpec) -> list[Tensor]:
    """The tensors of all experts of a layer, for each kind of layer that has some."""
    return [tensor for layer, _ in model.kinds for tensor in layer.applied() if tensor.role.startswith("experts.")]
