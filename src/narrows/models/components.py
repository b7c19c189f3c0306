"""Components: what the tensors of a layer are reported under."""

from __future__ import annotations


def component_of(role: str) -> str:
    """The component a layer's tensor is reported under."""
    head = role.split(".", 1)[0]
    return {
        "mla": "attention",
        "norm": "norms",
        "router": "router",
        "experts": "experts",
        "shared": "shared expert",
        "shared_gate": "shared expert",
        "mamba": "state space",
        "delta": "linear attention",
        "lightning": "linear attention",
        "conv": "short convolution",
        "per_layer": "per-layer input",
        "ngram": "per-layer input",
        "latent": "experts",
        "cross": "cross-attention",
        "lru": "recurrence",
        "rwkv": "recurrence",
        "mlstm": "recurrence",
        "hybrid_mamba": "state space",
        "link": "attention",
        "adapter": "mlp",
        "shared_norm": "norms",
        "residual": "norms",
        "gate": "attention",
        "csa": "attention",
        "norm_gate": "norms",
        **dict.fromkeys(("hyper", "altup", "laurel", "branch", "scale"), "residual streams"),
    }.get(head, head)
