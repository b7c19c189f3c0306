"""What the chapter's examples are about: its model, its two accelerators, and the length it plans for."""

from __future__ import annotations

from typing import NamedTuple

from narrows.deployment import Deployment, deploy
from narrows.hardware import Accelerator, find_accelerator
from narrows.models import ModelSpec, load_model
from narrows.models.mixers import Attention
from narrows.roofline import Bound, Roof, roof
from narrows.text import Text

LENGTH = 4096
"""Tokens per request in the chapter's plan."""
BATCH = 16
"""Requests at once in the chapter's KV cache example."""
NAMED = 7 * 10**9
"""Parameters that the model's name says."""
HIDDEN = 4096
"""Rows and columns of the square weight matrix that stands for a layer of the model."""


class Gpu(NamedTuple):
    """A GPU of table 5-7: its id here, its name there, GB on its label, requests in practice, $/h of one."""

    id: str
    name: str
    label: int
    practice: int
    usd_per_hour: float


GPUS = (Gpu("a10g", "A10", 24, 4, 2.0), Gpu("l40s", "L40S", 48, 16, 3.75))


def model() -> ModelSpec:
    """Llama-2-7b."""
    return load_model("llama-2-7b")


def attention(spec: ModelSpec) -> Attention:
    """The attention of a model whose layers all have the same."""
    mixer = spec.groups[0].layer.mixer
    assert isinstance(mixer, Attention)
    return mixer


def l40s() -> Accelerator:
    """The accelerator of the chapter's roofline."""
    return find_accelerator("l40s")


def l40s_roof() -> Roof:
    """Its roof at BF16."""
    return roof(l40s(), "bf16")


def plan_on(gpu: str, **changed: object) -> Deployment:
    """The model on one accelerator at the chapter's length and with a utilization of 0.9, unless changed."""
    settings: dict[str, object] = {"max_length": LENGTH, "utilization": 0.9, **changed}
    return deploy(model(), find_accelerator(gpu), **settings)  # type: ignore[arg-type]


def verdict(bound: Bound) -> Text:
    """The verdict of the roofline, for a sentence."""
    return Text("compute-bound") if bound == "compute" else Text("memory-bandwidth-bound")


def limit(bound: Bound) -> Text:
    """What the verdict names, for a table."""
    return Text("compute") if bound == "compute" else Text("memory bandwidth")


def short(spec: ModelSpec) -> str:
    """The name of a model without its organisation."""
    return spec.name.rsplit("/", 1)[-1]


def origin(spec: ModelSpec) -> str:
    """Where the facts about a model are from."""
    return f"{spec.name}: {spec.source}"
