"""Janus: sees through SigLIP and draws through a quantized autoencoder; one decoder for both."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.multimodal import text_of
from narrows.models.readers.several import together
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.spec import ModelSpec


def read_janus(c: Fields) -> ModelSpec:
    """The decoder, the tower with its aligner, and what it draws with."""
    family = Family(names="model.language_model", tied_default=True)
    text = text_of(c, family)
    v, q = c.nested("vision_config"), c.nested("vq_config")
    body = vision(v, "janus_vision_model", "model.vision_model.")
    aligner = _aligner(
        "model.aligner.", body.hidden, v.size("projection_dim", default=2048), v.layers("depth", default=2)
    )
    c.read.add("vq_config")
    towers = [body.parts.tower(), aligner.tower("projector"), _drawing(q).tower("image generation")]
    return together(c, family, text, "janus", towers)


def _aligner(prefix: str, inner: int, out: int, depth: int) -> Parts:
    parts = Parts(prefix)
    parts.add("fc1", out, inner, bias=True)
    parts.add("hidden_layers.{}", out, out, repeats=depth - 1, bias=True)
    return parts


def _drawing(q: Fields) -> Parts:
    """The autoencoder, and what leads from its codes to the decoder and back."""
    codes, width = q.size("num_embeddings", default=16384), q.size("embed_dim", default=8)
    latent, out = q.size("latent_channels", default=256), q.size("projection_dim", default=2048)
    vq, parts = autoencoder(q, "model.vqmodel."), Parts("model.")
    vq.add("quantize.embedding", codes, width)
    vq.add("quant_conv", width, latent, 1, 1, bias=True)
    vq.add("post_quant_conv", latent, width, 1, 1, bias=True)
    parts.add("generation_embeddings", codes, width)
    aligner = _aligner("model.generation_aligner.", width, out, q.layers("num_hidden_layers", default=2))
    parts.add("generation_head.proj_out", out, q.size("image_token_embed_dim", default=2048), bias=True)
    parts.add("generation_head.vision_head", codes, out, bias=True)
    parts.found = [*vq.found, *aligner.found, *parts.found]
    return parts


def autoencoder(q: Fields, prefix: str) -> Parts:
    """Stages of residual blocks down to the codes and up again; attention in the narrowest stage."""
    base, latent = q.size("base_channels", default=128), q.size("latent_channels", default=256)
    multipliers = whole_numbers(q, "channel_multiplier", default=[1, 1, 2, 2, 4], most=2**20)
    blocks = q.layers("num_res_blocks", default=2)
    parts, last = Parts(prefix), len(multipliers) - 1
    width = base
    parts.add("encoder.conv_in", base, q.size("in_channels", default=3, most=4096), 3, 3, bias=True)
    for level, multiplier in enumerate(multipliers):
        width = stage(parts, f"encoder.down.{level}.", width, base * multiplier, blocks, level == last)
        if level != last:
            parts.add(f"encoder.down.{level}.downsample.conv", width, width, 3, 3, bias=True)
    middle(parts, "encoder.", width)
    parts.add("encoder.norm_out", width, bias=True)
    parts.add("encoder.conv_out", (2 if q.flag("double_latent", False) else 1) * latent, width, 3, 3, bias=True)
    parts.add("decoder.conv_in", width, latent, 3, 3, bias=True)
    middle(parts, "decoder.", width)
    for level, multiplier in reversed(list(enumerate(multipliers))):
        width = stage(parts, f"decoder.up.{level}.", width, base * multiplier, blocks + 1, level == last)
        if level:
            parts.add(f"decoder.up.{level}.upsample.conv", width, width, 3, 3, bias=True)
    parts.add("decoder.norm_out", width, bias=True)
    parts.add("decoder.conv_out", q.size("out_channels", default=3, most=4096), width, 3, 3, bias=True)
    return parts


def stage(parts: Parts, stem: str, inner: int, out: int, blocks: int, attends: bool) -> int:
    """Residual blocks, the first of which changes the width; returns the width."""
    _residual(parts, stem + "block.0.", inner, out, 1)
    _residual(parts, stem + "block.{}.", out, out, blocks - 1)
    if attends:
        _attention(parts, stem + "attn.{}.", out, blocks)
    return out


def middle(parts: Parts, stem: str, width: int) -> None:
    """Two residual blocks with attention between them."""
    _residual(parts, stem + "mid.block_{}.", width, width, 2)
    _attention(parts, stem + "mid.attn_1.", width, 1)


def _residual(parts: Parts, stem: str, inner: int, out: int, repeats: int) -> None:
    parts.add(stem + "norm1", inner, repeats=repeats, bias=True)
    parts.add(stem + "conv1", out, inner, 3, 3, repeats=repeats, bias=True)
    parts.add(stem + "norm2", out, repeats=repeats, bias=True)
    parts.add(stem + "conv2", out, out, 3, 3, repeats=repeats, bias=True)
    if inner != out:
        parts.add(stem + "nin_shortcut", out, inner, 1, 1, repeats=repeats, bias=True)


def _attention(parts: Parts, stem: str, width: int, repeats: int) -> None:
    parts.add(stem + "norm", width, repeats=repeats, bias=True)
    for name in ("q", "k", "v", "proj_out"):
        parts.add(stem + name, width, width, 1, 1, repeats=repeats, bias=True)
