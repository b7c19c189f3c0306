"""More decoders from before Llama: GPT-1, CTRL, GPT-Neo, GPT-NeoX Japanese, XGLM, BioGPT, Persimmon, CPM-Ant."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import dense, grouped, model, outside, stack, text_part
from narrows.models.spec import Layer, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_LN = Norms(("ln_1", "ln_2"), bias=True)
_FAIRSEQ_NORMS = Norms(("self_attn_layer_norm", "final_layer_norm"), bias=True)


def _full(c: Fields, hidden: str, heads: str, *, bias: bool = False, out_bias: bool | None = None) -> Attention:
    """Attention with as many KV heads as heads, of hidden ÷ heads, by the names of both fields."""
    width, count = c.size(hidden, "hidden_size"), c.size(heads, "num_attention_heads")
    return Attention(
        width,
        count,
        count,
        c.divide(width, count, hidden, heads),
        qkv_bias=bias,
        out_bias=bias if out_bias is None else out_bias,
    )


def _no_cross_attention(c: Fields, family: str) -> None:
    if c.flag("add_cross_attention", False):
        raise BadInput(
            "this {family} config adds cross-attention, which narrows does not read yet; use a plain decoder",
            family=family,
        )


def read_openai_gpt(c: Fields) -> ModelSpec:
    """GPT-1: norms after each part, none at the end.

    transformers' class recomputes keys and values at every step; servers cache them, and so they are counted.
    """
    mixer, layers = _full(c, "n_embd", "n_head", bias=True), c.layers("n_layer", "num_hidden_layers")
    positions = c.size("n_positions", "max_position_embeddings", default=512)
    c.read |= {"afn", "n_special", "predict_special_tokens"}
    groups = stack([mixer] * layers, [Dense(mixer.hidden, 4 * mixer.hidden, False, True)] * layers, _LN)
    return model(c, groups, family="openai-gpt", dialect="openai-gpt", tied=True, positions=positions, final_norm=False)


def read_ctrl(c: Fields) -> ModelSpec:
    """CTRL: sinusoids as positions, a bias in the head."""
    mixer, layers = _full(c, "n_embd", "n_head", bias=True), c.layers("n_layer", "num_hidden_layers")
    part = Dense(mixer.hidden, c.size("dff", default=8192), False, True)
    groups = stack([mixer] * layers, [part] * layers, Norms(("layernorm1", "layernorm2"), bias=True))
    return model(c, groups, family="ctrl", dialect="ctrl", tied=True, final_norm_bias=True, head_bias=True)


def read_gpt_neo(c: Fields) -> ModelSpec:
    """GPT-Neo: local layers see 256 tokens, but keep the keys and values of all (as transformers does)."""
    mixer, layers = _full(c, "hidden_size", "num_heads", out_bias=True), c.layers("num_layers", "num_hidden_layers")
    inner = c.maybe_size("intermediate_size", default=None) or 4 * mixer.hidden
    positions = c.size("max_position_embeddings", default=2048)
    c.read |= {"attention_layers", "attention_types", "window_size", "embed_dropout"}
    groups = stack([mixer] * layers, [Dense(mixer.hidden, inner, False, True)] * layers, _LN)
    return model(c, groups, family="gpt_neo", dialect="gpt_neo", tied=True, positions=positions, final_norm_bias=True)


def read_gpt_neox_japanese(c: Fields) -> ModelSpec:
    """GPT-NeoX Japanese: no biases but one, after the attention of the last layer."""
    mixer, layers = _full(c, "hidden_size", "num_attention_heads"), c.layers("num_hidden_layers")
    part = Dense(mixer.hidden, mixer.hidden * c.size("intermediate_multiple_size", default=4, most=10_000), False)
    layer = Layer(mixer, part, Norms(("input_layernorm", "post_attention_layernorm"), bias=True), mixer.hidden)
    last = msgspec.structs.replace(mixer, beside=(Tensor("attention.last_bias", (mixer.hidden,), "vector"),))
    groups = grouped([*[layer] * (layers - 1), msgspec.structs.replace(layer, mixer=last)])
    return model(c, groups, family="gpt_neox_japanese", dialect="gpt_neox_japanese", tied=True, final_norm_bias=True)


def read_xglm(c: Fields) -> ModelSpec:
    """XGLM: sinusoids as positions, norms and biases as in fairseq."""
    _no_cross_attention(c, "xglm")
    mixer = _full(c, "d_model", "attention_heads", bias=True)
    layers = c.layers("num_layers", "num_hidden_layers")
    c.read |= {"scale_embedding", "activation_dropout"}
    part = Dense(mixer.hidden, c.size("ffn_dim", default=4096), False, True)
    groups = stack([mixer] * layers, [part] * layers, _FAIRSEQ_NORMS)
    return model(c, groups, family="xglm", dialect="xglm", tied=True, final_norm_bias=True)


def read_biogpt(c: Fields) -> ModelSpec:
    """BioGPT: the same with learned positions, two more rows than named."""
    mixer, layers = _full(c, "hidden_size", "num_attention_heads", bias=True), c.layers("num_hidden_layers")
    c.read |= {"scale_embedding", "activation_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"}
    positions = c.size("max_position_embeddings", default=1024) + 2
    groups = stack([mixer] * layers, [dense(c, gated=False, bias=True)] * layers, _FAIRSEQ_NORMS)
    return model(c, groups, family="biogpt", dialect="biogpt", tied=True, positions=positions, final_norm_bias=True)


def read_persimmon(c: Fields) -> ModelSpec:
    """Persimmon: q, k and v fused, with LayerNorms on queries and keys unless `qk_layernorm` is off."""
    full = _full(c, "hidden_size", "num_attention_heads", bias=True)
    normed = c.flag("qk_layernorm", True)
    mixer = msgspec.structs.replace(full, qk_norm=normed, qk_norm_bias=normed)
    layers = c.layers("num_hidden_layers")
    c.read.add("num_key_value_heads")
    norms = Norms(("input_layernorm", "post_attention_layernorm"), bias=True)
    groups = stack([mixer] * layers, [dense(c, gated=False, bias=True)] * layers, norms)
    return model(c, groups, family="persimmon", dialect="persimmon", final_norm_bias=True)


def read_fuyu(c: Fields) -> ModelSpec:
    """Fuyu: Persimmon, and one projection for patches of images. Its own files hold the decoder's fields flat."""
    nested = isinstance(c.raw("text_config"), dict)
    spec = read_persimmon(text_part(c)) if nested else read_persimmon(c)
    patch, channels = c.size("patch_size", default=30), c.size("num_channels", default=3)
    c.read.add("image_size")
    if nested:
        # its own files repeat the decoder's fields at the top
        c.read |= c.inner["text_config"].read
    name, width = "vision_embed_tokens", patch * patch * channels
    tensors = (
        (f"model.{name}.weight", 1, Tensor("vision.patches", (spec.hidden, width), "plain")),
        (f"model.{name}.bias", 1, Tensor("vision.patches.bias", (spec.hidden,), "vector")),
    )
    return msgspec.structs.replace(spec, family="fuyu", dialect="fuyu", towers=(Tower("projector", tensors),))


def read_cpmant(c: Fields) -> ModelSpec:
    """CPM-Ant: a learned prompt before every sequence, positions as a bias, always a head of its own."""
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, width = c.layers("num_hidden_layers"), c.size("dim_head", default=128)
    prompt, kinds = c.size("prompt_length", default=32), c.size("prompt_types", default=32)
    segments = c.size("segment_types", default=32)
    buckets = c.size("position_bias_num_buckets", default=512)
    mixer = Attention(hidden, heads, heads, width, prompt=prompt)
    part = Dense(hidden, c.size("dim_ff", default=10240))
    c.read |= {"dropout_p", "eps", "position_bias_max_distance", "mask_modules", "half"}
    c.values = {**c.values, "tie_word_embeddings": False}
    norms = Norms(("layernorm_before_attention", "layernorm_before_ffn"))
    return model(
        c,
        stack([mixer] * layers, [part] * layers, norms),
        family="cpmant",
        dialect="cpmant",
        # the prompts are rows of the embedding
        embedding_rows=c.size("vocab_size") + kinds * prompt,
        extra=outside(
            before=[
                Tensor("before.segments", (segments, hidden), "table"),
                Tensor("before.position_bias", (segments * segments + buckets, heads), "table"),
            ]
        ),
    )
