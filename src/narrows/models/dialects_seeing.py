"""Names of decoders that stand in multimodal models only and are not named as Llama's is."""

from __future__ import annotations


def _names(layer: str, parts: dict[str, str], outer: dict[str, str]) -> dict[str, str]:
    """Names of a decoder: `parts` per layer and `outer` around them, each with the bias beside its weight."""
    found = {}
    for role, name in {**outer, **{role: layer + name for role, name in parts.items()}}.items():
        found[role] = f"{name}.weight"
        found[f"{role}.bias"] = f"{name}.bias"
    return found


_QKVO = {
    f"attention.{k}": f"self_attn.{name}"
    for k, name in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True)
}

SEEING: dict[str, dict[str, str]] = {
    "kosmos": _names(
        "model.layers.{}.",
        {
            **_QKVO,
            "attention.inner_norm": "self_attn.inner_attn_ln",
            "mlp.up": "ffn.fc1",
            "mlp.down": "ffn.fc2",
            "mlp.inner_norm": "ffn.ffn_layernorm",
            "norm.self_attn_layer_norm": "self_attn_layer_norm",
            "norm.final_layer_norm": "final_layer_norm",
        },
        {"embedding": "model.embed_tokens", "final_norm": "model.layer_norm", "head": "lm_head"},
    ),
    "blip": _names(
        "bert.encoder.layer.{}.",
        {
            **{
                f"attention.{k}": f"attention.self.{name}" for k, name in (("q", "query"), ("k", "key"), ("v", "value"))
            },
            "attention.o": "attention.output.dense",
            "mlp.up": "intermediate.dense",
            "mlp.down": "output.dense",
            "norm.attention": "attention.output.LayerNorm",
            "norm.output": "output.LayerNorm",
        },
        {
            "embedding": "bert.embeddings.word_embeddings",
            "embedding_norm": "bert.embeddings.LayerNorm",
            "position_embedding": "bert.embeddings.position_embeddings",
            "head": "cls.predictions.decoder",
        },
    ),
    "pix2struct": _names(
        "layer.{}.",
        {
            **{
                f"attention.{k}": f"self_attention.attention.{name}"
                for k, name in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output"))
            },
            "mlp.gate": "mlp.DenseReluDense.wi_0",
            "mlp.up": "mlp.DenseReluDense.wi_1",
            "mlp.down": "mlp.DenseReluDense.wo",
            "norm.self_attention": "self_attention.layer_norm",
            "norm.mlp": "mlp.layer_norm",
        },
        {"embedding": "embed_tokens", "final_norm": "final_layer_norm", "head": "lm_head"},
    ),
    "formulanet": _names(
        "model.decoder.layers.{}.",
        {
            **_QKVO,
            "mlp.up": "fc1",
            "mlp.down": "fc2",
            "norm.self_attn_layer_norm": "self_attn_layer_norm",
            "norm.final_layer_norm": "final_layer_norm",
        },
        {
            "embedding": "model.decoder.embed_tokens",
            "embedding_norm": "model.decoder.layernorm_embedding",
            "position_embedding": "model.decoder.embed_positions",
            "final_norm": "model.decoder.layer_norm",
            "head": "lm_head",
        },
    ),
}
