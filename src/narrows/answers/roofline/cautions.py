"""What to know before an answer of `roofline` is read: parts that do not apply, and what a prompt is here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narrows.answers.first import too_long, too_much
from narrows.deployment import Deployment
from narrows.deployment.runs import wanting
from narrows.memory.offload import held_by_host
from narrows.models import ModelSpec
from narrows.models.class_heads import note_of
from narrows.models.experts import has_experts
from narrows.roofline.phases import encoded
from narrows.roofline.runs import multiplied
from narrows.step.arithmetic import plain
from narrows.text import Text
from narrows.units import bandwidth, binary, seconds

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
                "{model} is a {architecture}, which generates nothing: there is no decode, and what is said of prefill "
                "holds",
                model=model.name,
                architecture=model.architecture,
            )
        ] = None
    found |= dict.fromkeys(
        text
        for one in deployments
        for text in (*wanting(one), *too_much(one), *too_long(one), *_with_host(one), *_drafting(one))
    )
    return tuple(found)


def _drafting(deployment: Deployment) -> Iterator[Text]:
    """That drafts are in no time."""
    if deployment.draft is not None:
        yield Text(
            "drafts by {method} are counted in what fits, not in the times: to draft more tokens in a step ({tokens}) "
            "costs time of its own, and they are verified in one pass",
            method=deployment.draft.method,
            tokens=deployment.draft.tokens,
        )


def _with_host(deployment: Deployment) -> Iterator[Text]:
    """That weights are read from host memory in every step, which no time counts."""
    size, links = held_by_host(deployment), deployment.accelerator.links
    rate = links.c2c or links.pcie
    if not size:
        return
    if rate is None or has_experts(deployment.model):
        yield Text(
            "{size} of the weights per device stay in host memory and are read from there when a step needs them: the "
            "times are as if all were on the device, and do not hold",
            size=binary(size),
        )
        return
    yield Text(
        "{size} of the weights per device stay in host memory: reading them takes each step {time} or more beyond "
        "these times, at the {speed} of its link on paper; the times are as if all were on the device",
        size=binary(size),
        time=seconds(size / rate),
        speed=bandwidth(rate),
    )


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
