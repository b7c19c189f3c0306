"""What to know before an answer of `roofline` is read: parts that do not apply, and what a prompt is here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narrows.answers.first import too_long, too_much
from narrows.deployment import Deployment
from narrows.models import ModelSpec
from narrows.models.class_heads import note_of
from narrows.roofline.phases import encoded
from narrows.roofline.runs import multiplied, wanting
from narrows.step.arithmetic import plain
from narrows.text import Text

_POOLED = ("ForTextEncoding", "EmbeddingModel", "Classification", "ClassificationModel", "RewardModel", "Modeling")
"""How names of classes end that answer with numbers, not with tokens (vLLM's _SUFFIX_TO_DEFAULTS, Apache-2.0)."""


def pooled(model: ModelSpec) -> bool:
    """Whether the model's class embeds or classifies what it reads, and generates nothing."""
    return model.architecture.endswith(_POOLED) or note_of(model.architecture, model.family) is not None


def cautions(model: ModelSpec, deployments: Sequence[Deployment]) -> tuple[Text, ...]:
    """Why a part of the answer is of something that does not run so."""
    found: dict[Text, None] = {}
    if pooled(model):
        found[
            Text(
                "{model} is a {architecture}, which generates nothing: what is said of prefill holds, and decode is as "
                "if it generated",
                model=model.name,
                architecture=model.architecture,
            )
        ] = None
    found |= dict.fromkeys(text for one in deployments for text in (*wanting(one), *too_much(one), *too_long(one)))
    return tuple(found)


_WIDE = ("BF16", "F16", "F32")
"""File types of llama.cpp that quantize nothing."""


def unpacked(deployment: Deployment) -> Iterator[Text]:
    """That quantized weights are not multiplied as such, where they are not."""
    label = deployment.model.precision.label
    if label and label not in _WIDE and not multiplied(deployment):
        yield Text(
            "weights stored as {label} are unpacked on {gpu} for products in {wide}: fewer bytes, as many FLOPs",
            label=label,
            gpu=deployment.accelerator.name,
            wide=plain(deployment.accelerator, deployment.dtype).precision,
        )


def reading(model: ModelSpec) -> Iterator[Text]:
    """What a prompt is to the model."""
    if encoded(model):
        yield Text("the prompt is what the encoder reads; the decoder starts with one token")
    for tower in model.towers:
        if tower.served and not tower.reads:
            yield Text(
                "prompts are text alone: the {tower} reads nothing; what it reads adds tokens to the prompt, and work "
                "of its own",
                tower=Text(tower.name),
            )
