"""Gemma 1-3: tied head, wide heads; windows on every other layer (2) or five of six (3); a SigLIP tower (3)."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.build import (
    FULL,
    PRE_NORMS,
    SANDWICH_NORMS,
    SLIDING,
    attention,
    dense,
    model,
    stack,
    windowed,
)
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor


def read_gemma(c: Fields) -> ModelSpec:
    """Gemma 1."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("attention_bias", False)
    mixer = attention(c, kv_heads=16, head_dim=256, qkv_bias=bias, out_bias=bias)
    return model(c, stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS), family="gemma", tied=True)


def read_gemma2(c: Fields) -> ModelSpec:
    """Gemma 2: layers 0, 2, 4 … slide. The hub's files do not say so: it is the architecture's default."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [(SLIDING, FULL)[i % 2] for i in range(layers)]
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=256, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, c.maybe_size("sliding_window", default=4096), kinds)
    return model(c, stack(mixers, [dense(c)] * layers, SANDWICH_NORMS), family="gemma2", tied=True)


_GEMMA3_DEFAULTS = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "max_position_embeddings": 131072,
}
"""transformers' Gemma3TextConfig; the hub's multimodal files leave many of them out."""


def read_gemma3_text(c: Fields) -> ModelSpec:
    """Gemma 3's decoder: every sixth layer sees everything, the others a window."""
    for name, value in _GEMMA3_DEFAULTS.items():
        if not c.has(name):
            c.values = {**c.values, name: value}
            c.defaulted.append(c.path + name)
    layers = c.layers("num_hidden_layers")
    pattern = c.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [
        FULL if (i + 1) % pattern == 0 else SLIDING for i in range(layers)
    ]
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=256, qk_norm=True, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, c.maybe_size("sliding_window", default=4096), kinds)
    return model(c, stack(mixers, [dense(c)] * layers, SANDWICH_NORMS), family="gemma3", tied=True)


def read_gemma3(c: Fields) -> ModelSpec:
    """Gemma 3 with its vision tower."""
    text = c.nested("text_config")
    for name in ("torch_dtype", "dtype", "quantization_config"):
        value = c.raw(name)
        if text.stated(name) is None:
            text.values = {**text.values, name: value}
    # whether the head is tied stands at the top; what the text part says of it is not read
    text.values = {**text.values, "tie_word_embeddings": c.raw("tie_word_embeddings", default=True)}
    spec = read_gemma3_text(text)
    c.defaulted += text.defaulted
    vision = c.nested("vision_config")
    towers = (
        _siglip(vision, c.size("mm_tokens_per_image", default=256)),
        _projector(vision.size("hidden_size", default=768), spec.hidden),
    )
    return ModelSpec(**{**{n: getattr(spec, n) for n in spec.__struct_fields__}, "towers": towers, "dialect": "gemma3"})


def _siglip(c: Fields, tokens: int) -> Tower:
    """SigLIP's vision transformer (transformers' SiglipVisionConfig defaults), whose patches become `tokens`."""
    hidden, layers = c.size("hidden_size", default=768), c.layers("num_hidden_layers", default=12)
    inner, patch = c.size("intermediate_size", default=3072), c.size("patch_size", default=16)
    side = c.size("image_size", default=224) // patch
    prefix = "vision_tower.vision_model."
    found: list[tuple[str, int, Tensor]] = []

    def add(name: str, *shape: int, repeats: int = 1) -> None:
        """Weight [out, in] (or a vector) and its bias, once or per layer. Engines keep the tower whole per rank."""
        matrix = len(shape) > 1
        found.append(
            (f"{prefix}{name}.weight", repeats, Tensor(f"vision.{name}", shape, "plain" if matrix else "vector"))
        )
        found.append((f"{prefix}{name}.bias", repeats, Tensor(f"vision.{name}.bias", shape[:1], "vector")))

    add("embeddings.patch_embedding", hidden, c.size("num_channels", default=3), patch, patch)
    found.append(
        (
            f"{prefix}embeddings.position_embedding.weight",
            1,
            Tensor("vision.position", (side * side, hidden), "table"),
        )
    )
    layer = "encoder.layers.{}."
    for name in ("layer_norm1", "layer_norm2"):
        add(layer + name, hidden, repeats=layers)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        add(f"{layer}self_attn.{name}", hidden, hidden, repeats=layers)
    add(layer + "mlp.fc1", inner, hidden, repeats=layers)
    add(layer + "mlp.fc2", hidden, inner, repeats=layers)
    add("post_layernorm", hidden)
    if c.flag("vision_use_head", True):
        found.append((f"{prefix}head.probe", 1, Tensor("vision.probe", (1, 1, hidden), "vector")))
        add("head.attention.in_proj", 3 * hidden, hidden)
        add("head.attention.out_proj", hidden, hidden)
        add("head.layernorm", hidden)
        add("head.mlp.fc1", inner, hidden)
        add("head.mlp.fc2", hidden, inner)
    return Tower("vision tower", tuple(found), patches=max(1, side * side // tokens))


def _projector(vision: int, hidden: int) -> Tower:
    prefix = "multi_modal_projector.mm_"
    return Tower(
        "projector",
        (
            (f"{prefix}input_projection_weight", 1, Tensor("projector", (vision, hidden), "plain")),
            (f"{prefix}soft_emb_norm.weight", 1, Tensor("projector.norm", (vision,), "vector")),
        ),
    )
