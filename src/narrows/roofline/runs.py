"""Whether an engine runs a deployment, by its documentation: device, weights, cache, ways of serving."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.deployment import Deployment
from narrows.deployment.runs import attention_wanting, cache_wanting, parts_of, weights_wanting
from narrows.engines.support import What, support
from narrows.models.mixers import CrossAttention, GatedDeltaNet
from narrows.precision.per_tensor import PerTensor
from narrows.step.arithmetic import of_scheme, plain
from narrows.text import Text


def wanting(deployment: Deployment) -> tuple[Text, ...]:
    """Why the deployment does not run, or is not known to; empty: it runs."""
    return (
        *_device(deployment),
        *weights_wanting(deployment),
        *cache_wanting(deployment),
        *attention_wanting(deployment),
    )


def _device(deployment: Deployment) -> Iterator[Text]:
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, "device", device)
    if found is None:
        yield Text(
            "nothing says that {engine} runs on {gpu}; times are what it would take there",
            engine=engine.label,
            gpu=device.name,
        )
    elif found.way == "none" and found.needs:
        yield Text(
            "{engine} does not run on {gpu}: its compute capability is {has}, and {needs} is needed; times are what it "
            "would take there",
            engine=engine.label,
            gpu=device.name,
            has=device.compute_capability or "?",
            needs=found.needs,
        )
    elif found.way == "none":
        yield Text(
            "{engine} does not run on {gpu}; times are what it would take there", engine=engine.label, gpu=device.name
        )
    elif found.way == "plugin":
        yield Text(
            "{engine} runs on {gpu} by a plugin alone, of which nothing is known here; times are what {engine} would "
            "take",
            engine=engine.label,
            gpu=device.name,
        )


def multiplied(deployment: Deployment) -> bool:
    """Whether quantized weights are multiplied as such; if not, they are unpacked first."""
    device, dtype = deployment.accelerator, deployment.dtype
    if isinstance(deployment.model.precision.scheme, PerTensor):
        return False
    return of_scheme(deployment.model.precision.scheme, device, dtype) != plain(device, dtype)


def able(deployment: Deployment, what: What) -> bool:
    """Whether the engine is known to serve the model so on this device: `speculative decoding`, `prefix caching`.

    Neither with encoder-decoders (vLLM's compatibility matrix of features). Of drafts that are refused the state of a
    recurrence has to be taken back, for which vLLM has a kernel for gated delta rules (gdn_attn) alone.
    """
    parts = [part for layer, _ in deployment.model.kinds for part in parts_of(layer.mixer)]
    if any(isinstance(part, CrossAttention) for part in parts):
        return False
    if what == "speculative decoding" and any(part.state() and not isinstance(part, GatedDeltaNet) for part in parts):
        return False
    found = support(deployment.engine, what, deployment.accelerator)
    return found is not None and found.way in ("native", "plugin")
