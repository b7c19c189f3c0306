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

_SEEING: dict[str, dict[str, str]] = {
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
        {
            "embedding": "model.embed_tokens",
            "before.segments": "model.segment_emb",
            "final_norm": "model.layer_norm",
            "head": "lm_head",
        },
    ),
    "blip": _names(
        "bert.encoder.layer.{}.",
        {
            **{
                f"attention.{k}": f"attention.self.{name}" for k, name in (("q", "query"), ("k", "key"), ("v", "value"))
            },
            "attention.o": "attention.output.dense",
            **{
                f"cross.{k}": f"crossattention.self.{name}"
                for k, name in (("q", "query"), ("k", "key"), ("v", "value"))
            },
            "cross.o": "crossattention.output.dense",
            "mlp.up": "intermediate.dense",
            "mlp.down": "output.dense",
            "norm.attention": "attention.output.LayerNorm",
            "norm.crossattention": "crossattention.output.LayerNorm",
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
                f"{role}.{k}": f"{part}.attention.{name}"
                for role, part in (("attention", "self_attention"), ("cross", "encoder_decoder_attention"))
                for k, name in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output"))
            },
            "attention.relative": "self_attention.attention.relative_attention_bias",
            "mlp.gate": "mlp.DenseReluDense.wi_0",
            "mlp.up": "mlp.DenseReluDense.wi_1",
            "mlp.down": "mlp.DenseReluDense.wo",
            "norm.self_attention": "self_attention.layer_norm",
            "norm.encoder_decoder_attention": "encoder_decoder_attention.layer_norm",
            "norm.mlp": "mlp.layer_norm",
        },
        {"embedding": "embed_tokens", "final_norm": "final_layer_norm", "head": "lm_head"},
    ),
}

_LAYER = "model.layers.{}."
_GATE = {"attention.gate": f"{_LAYER}self_attn.gate_proj.weight"}


def seeing(decoder: dict[str, str], deepseek: dict[str, str]) -> dict[str, dict[str, str]]:
    """All of them; some are named as the usual decoder or as DeepSeek's is, with more beside."""
    return {
        **_SEEING,
        "muse_glimmer": {**decoder, **_GATE},
        "muse_spark": {
            **deepseek,
            **_GATE,
            "latent.in": f"{_LAYER}mlp.pre_expert_proj.weight",
            "latent.in_norm": f"{_LAYER}mlp.pre_expert_norm.weight",
            "latent.out": f"{_LAYER}mlp.post_expert_proj.weight",
            "latent.out_norm": f"{_LAYER}mlp.experts.post_expert_norm.weight",
            "residual.attention": f"{_LAYER}post_attention_residual_gate.gate",
            "residual.mlp": f"{_LAYER}post_feedforward_residual_gate.gate",
        },
        "mistral_large4": {
            **deepseek,
            "before.alpha": "model.lerope.alpha",
            "mla.scale": f"{_LAYER}self_attn.softmax_scaling.scale",
            "mla.scale.bias": f"{_LAYER}self_attn.softmax_scaling.bias",
            "mla.index_scale": f"{_LAYER}self_attn.indexer.softmax_scaling.scale",
            "mla.index_scale.bias": f"{_LAYER}self_attn.indexer.softmax_scaling.bias",
            "mla.index_q_norm": f"{_LAYER}self_attn.indexer.q_input_norm.weight",
            "mla.index_q_norm.bias": f"{_LAYER}self_attn.indexer.q_input_norm.bias",
        },
    }
