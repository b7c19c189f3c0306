"""How an engine runs a deployment, by its documentation: its arithmetic, and ways of serving."""

from __future__ import annotations

from narrows.deployment import Deployment
from narrows.deployment.runs import parts_of
from narrows.engines.support import What, support
from narrows.models.mixers import CrossAttention, GatedDeltaNet
from narrows.precision.per_tensor import PerTensor
from narrows.step.arithmetic import of_scheme, plain


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
