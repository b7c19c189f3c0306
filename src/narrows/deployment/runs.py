"""What of a deployment its engine does not run, or is not known to, by its documentation: device, weights, cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrows.deployment.types import Deployment
from narrows.engines.support import Support, What, support
from narrows.models.mixers import Chain, LatentAttention, Parallel
from narrows.precision import UNQUANTIZED, Scheme
from narrows.text import Text


def format_of(scheme: Scheme) -> tuple[What, str] | None:
    """What engines call weights stored so, and how people do; None where nothing is asked: unquantized, or rare."""
    if scheme is UNQUANTIZED:
        return None
    from narrows.precision.floats import Fp8Block, Fp8Scaled, Mxfp4, Nvfp4
    from narrows.precision.integers import Awq, Gptq, Int8Scaled

    known: tuple[tuple[type[Scheme], tuple[What, str]], ...] = (
        (Fp8Block, ("fp8", "FP8")),
        (Fp8Scaled, ("fp8", "FP8")),
        (Nvfp4, ("nvfp4", "NVFP4")),
        (Mxfp4, ("mxfp4", "MXFP4")),
        (Int8Scaled, ("int8", "INT8")),
        (Awq, ("awq", "AWQ")),
        (Gptq, ("gptq", "GPTQ")),
    )
    return next((found for kind, found in known if isinstance(scheme, kind)), None)


def wanting(deployment: Deployment) -> tuple[Text, ...]:
    """Why the engine does not run it on this device, or is not known to; empty: it runs."""
    return (
        *_device(deployment),
        *weights_wanting(deployment),
        *_cache(deployment),
        *_attention(deployment),
    )


def unfit(deployment: Deployment, dtype: str) -> tuple[Text, ...]:
    """Why memory is of something that does not start so; empty: nothing is known against it. dtype: as asked for."""
    return (
        *_device(deployment),
        *_bfloat16(deployment, dtype),
        *weights_wanting(deployment),
        *_cache(deployment),
        *_attention(deployment),
    )


def _device(deployment: Deployment) -> Iterator[Text]:
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, "device", device)
    if found is None:
        yield Text(
            "nothing says that {engine} runs on {gpu}; the figures are as if it did",
            engine=engine.label,
            gpu=device.name,
        )
    elif found.way == "none" and found.needs:
        yield Text(
            "{engine} does not run on {gpu}: its compute capability is {has}, and {needs} is needed; the figures are "
            "as if it did",
            engine=engine.label,
            gpu=device.name,
            has=device.compute_capability or "?",
            needs=found.needs,
        )
    elif found.way == "none":
        yield Text("{engine} does not run on {gpu}; the figures are as if it did", engine=engine.label, gpu=device.name)
    elif found.way == "plugin":
        yield Text(
            "{engine} runs on {gpu} by a plugin alone, of which nothing is known here; the figures are as if {engine} "
            "ran there itself",
            engine=engine.label,
            gpu=device.name,
        )


def _bfloat16(deployment: Deployment, dtype: str) -> Iterator[Text]:
    if deployment.dtype.name != "bfloat16":
        return
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, "bf16 checkpoint" if dtype == "auto" else "bf16", device)
    if found is not None and found.way == "none":
        yield Text(
            "{engine} refuses to start in bfloat16 on {gpu}, whose compute capability is {has}, and {needs} is needed: "
            "give --dtype float16 (the sizes are the same)",
            engine=engine.label,
            gpu=device.name,
            has=device.compute_capability or "?",
            needs=found.needs,
        )


def weights_wanting(deployment: Deployment) -> Iterator[Text]:
    """Why the engine does not run weights stored so, or is not known to."""
    named = format_of(deployment.model.precision.scheme)
    if named is None:
        return
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, named[0], device)
    if found is None:
        yield Text(
            "nothing says that {engine} runs {format} weights on {gpu}",
            engine=engine.label,
            format=named[1],
            gpu=device.name,
        )
    elif found.way == "none":
        yield Text(
            "{engine} does not run {format} weights on {gpu}", engine=engine.label, format=named[1], gpu=device.name
        )


def weights_refused(deployment: Deployment) -> bool:
    """Whether the engine is known not to run weights stored so on this device."""
    named = format_of(deployment.model.precision.scheme)
    found = support(deployment.engine, named[0], deployment.accelerator) if named else None
    return found is not None and found.way == "none"


def _cache(deployment: Deployment) -> Iterator[Text]:
    """Why the engine does not keep such a cache, or is not known to."""
    if deployment.kv.bits >= 16:
        return
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, "fp8 kv", device)
    if found is None:
        yield Text("nothing says that {engine} keeps an 8-bit KV cache on {gpu}", engine=engine.label, gpu=device.name)
    elif found.way == "none" or not _reaches(found, deployment):
        yield Text(
            "{engine} does not keep an 8-bit KV cache of this model on {gpu}", engine=engine.label, gpu=device.name
        )


def _attention(deployment: Deployment) -> Iterator[Text]:
    """Why the engine has no kernels for the model's attention on this device. What is not known is not said."""
    mixers = [part for layer, _ in deployment.model.kinds for part in parts_of(layer.mixer)]
    if not any(isinstance(one, LatentAttention) and one.index_heads for one in mixers):
        return
    engine, device = deployment.engine, deployment.accelerator
    found = support(engine, "sparse latent attention", device)
    if found is not None and found.way == "none":
        yield Text(
            "{engine} has no kernels for the sparse latent attention of this model on {gpu}: its compute capability is "
            "{has}, and {needs} is needed",
            engine=engine.label,
            gpu=device.name,
            has=device.compute_capability or "?",
            needs=found.needs,
        )


def parts_of(mixer: Any) -> tuple[Any, ...]:
    """The mixers of which a mixer is made, or itself."""
    if isinstance(mixer, Chain):
        return mixer.parts
    if isinstance(mixer, Parallel):
        return (mixer.attention, mixer.recurrent)
    return (getattr(mixer, "attention", mixer),)


def _reaches(fact: Support, deployment: Deployment) -> bool:
    """Whether kernels for these widths of heads do for the model's attention."""
    if not fact.heads:
        return True
    for layer, _ in deployment.model.kinds:
        for part in parts_of(layer.mixer):
            if isinstance(part, LatentAttention) or getattr(part, "sinks", False):
                return False
            width = getattr(part, "head_dim", None) if part.cache() else None
            if width is not None and width not in fact.heads:
                return False
    return True
