"""Decoders with a tower of their own kind: GIT, GOT-OCR 2, MOSS Transcribe, Phi-4 multimodal."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import model, stack, text_part, with_defaults
from narrows.models.readers.phi3 import read_phi3
from narrows.models.readers.qwen import read_qwen2, read_qwen3
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.readers.towers.sam import sam
from narrows.models.spec import ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def _of_type(c: Fields, kind: str, tied: bool) -> Fields:
    """The decoder's fields, which must be of the kind that the architecture has."""
    text = text_part(c, tied=tied)
    stated = text.raw("model_type", default=kind)
    if stated != kind:
        raise BadInput(
            "config field '{field}' is {value}; narrows reads this architecture with {known} there",
            field=c.path + "text_config.model_type",
            value=str(stated)[:40],
            known=kind,
        )
    return text


def read_git(c: Fields) -> ModelSpec:
    """GIT: BERT's layers behind a CLIP tower; picture and text stand in one sequence."""
    layers, hidden = c.layers("num_hidden_layers"), c.size("hidden_size")
    heads = c.size("num_attention_heads", default=12)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)
    part = Dense(hidden, c.size("intermediate_size", default=3072), gated=False, bias=True)
    body = vision(c.nested("vision_config"), "git_vision_model", "git.image_encoder.")
    projector = Parts("git.")
    projector.add("visual_projection.visual_projection.0", hidden, body.hidden, bias=True)
    projector.add("visual_projection.visual_projection.1", hidden, bias=True)
    frames = c.maybe_size("num_image_with_embedding", default=None, most=100_000) or 0
    projector.add("img_temporal_embedding.{}", body.hidden, repeats=frames, suffix="")
    c.read |= {"hidden_dropout_prob", "attention_probs_dropout_prob"}
    norms = Norms(("attention.output.LayerNorm", "output.LayerNorm"), bias=True)
    return model(
        c,
        stack([mixer] * layers, [part] * layers, norms),
        family="git",
        dialect="git",
        positions=c.size("max_position_embeddings", default=1024),
        embedding_norm=True,
        final_norm=False,
        head_bias=True,
        towers=(body.parts.tower(), projector.tower("projector")),
    )


def read_got_ocr2(c: Fields) -> ModelSpec:
    """GOT-OCR 2: Qwen2 behind the tower of SAM, whose layers attend within windows or to everything."""
    spec = read_qwen2(_of_type(c, "qwen2", True))
    body = sam(c.nested("vision_config"), "model.vision_tower.")
    projector = Parts("model.multi_modal_projector.")
    projector.add("conv_upsampler1", 2 * body.out, body.out, 3, 3)
    projector.add("conv_upsampler2", spec.hidden, 2 * body.out, 3, 3)
    projector.add("multimodal_projector", spec.hidden, spec.hidden, bias=True)
    c.read |= {"image_seq_length"}
    towers = (body.parts.tower(), projector.tower("projector"))
    return msgspec.structs.replace(spec, family="got_ocr2", dialect="llama_vl", towers=towers)


def read_moss_transcribe_diarize(c: Fields) -> ModelSpec:
    """MOSS Transcribe: Qwen3 behind Whisper's encoder."""
    spec = read_qwen3(_of_type(c, "qwen3", True))
    audio = c.nested("audio_config")
    hidden, inner = (
        audio.size("hidden_size", "d_model", default=1024),
        audio.size("intermediate_size", "encoder_ffn_dim", default=4096),
    )
    count = audio.layers("num_hidden_layers", "encoder_layers", default=24)
    parts = Parts("model.audio_tower.")
    parts.add("conv1", hidden, audio.size("num_mel_bins", default=80), 3, bias=True)
    parts.add("conv2", hidden, hidden, 3, bias=True)
    parts.add("embed_positions", audio.size("max_source_positions", default=1500), hidden)
    layer = "layers.{}."
    for side in ("q_proj", "k_proj", "v_proj", "out_proj"):
        parts.add(f"{layer}self_attn.{side}", hidden, hidden, repeats=count, bias=side != "k_proj")
    parts.add(layer + "fc1", inner, hidden, repeats=count, bias=True)
    parts.add(layer + "fc2", hidden, inner, repeats=count, bias=True)
    for name in ("self_attn_layer_norm", "final_layer_norm"):
        parts.add(layer + name, hidden, repeats=count, bias=True)
    parts.add("layer_norm", hidden, bias=True)
    bias, merge = c.flag("projector_bias", True), c.size("audio_merge_size", default=4)
    projector = Parts("model.multi_modal_projector.")
    projector.add("linear_1", spec.hidden, hidden * merge, bias=bias)
    projector.add("linear_2", spec.hidden, spec.hidden, bias=bias)
    projector.add("norm", spec.hidden, bias=True)
    c.read |= {"audio_token_id", "audio_chunk_size"}
    towers = (parts.tower("audio tower"), projector.tower("projector"))
    return msgspec.structs.replace(spec, family="moss_transcribe_diarize", dialect="llama_vl", towers=towers)


def read_phi4_multimodal(c: Fields) -> ModelSpec:
    """Phi-4 multimodal: Phi-3's decoder with towers for pictures and sound (the adapters of its files are no part)."""
    with_defaults(c, {"num_key_value_heads": 8})
    spec = read_phi3(c)
    seen, heard = ((c.nested(name) if c.raw(name) else Fields({})) for name in ("vision_config", "audio_config"))
    towers = (*phi4_vision(seen, spec.hidden), *phi4_audio(heard, spec.hidden))
    return msgspec.structs.replace(spec, family="phi4_multimodal", towers=towers)


_EXTENDED = "model.embed_tokens_extend."


def phi4_vision(c: Fields, out: int) -> tuple[Tower, Tower]:
    """Phi-4's tower and what leads from it into the decoder."""
    body = vision(c, "phi4_multimodal_vision", f"{_EXTENDED}image_embed.img_processor.")
    hidden = body.hidden
    projector = Parts(f"{_EXTENDED}image_embed.")
    projector.add("global_img_feature_extensor", 1, 1, hidden, suffix="")
    projector.add("sub_img_feature_extensor", 1, 1, 1, hidden, suffix="")
    projector.add("img_projection_up", out, hidden, bias=True)
    projector.add("img_projection_down", out, out, bias=True)
    return body.parts.tower(), projector.tower("projector")


def _halvings(c: Fields, value: Any) -> int:
    """How often sound is halved: the logarithm of `time_reduction`, rounded down."""
    if not isinstance(value, int) or isinstance(value, bool) or not 2 <= value <= 2**16 or value % 2:
        raise BadInput("config field '{field}' must be a multiple of 2", field=c.path + "time_reduction")
    return value.bit_length() - 1


def phi4_audio(c: Fields, out: int) -> tuple[Tower, Tower]:
    """A Conformer behind convolutions."""
    hidden, inner = c.size("hidden_size", default=1024), c.size("intermediate_size", default=1536)
    count, heads = c.layers("num_blocks", default=24), c.size("num_attention_heads", default=16)
    channels, bins = c.size("nemo_conv_channels", default=1024), c.size("input_size", default=80)
    halvings, final = _halvings(c, c.raw("time_reduction", default=8)), bins
    for _ in range(halvings):
        final = (final + 1) // 2
    attending = heads * (hidden // heads)
    parts = Parts(f"{_EXTENDED}audio_embed.encoder.")
    parts.add("embed.conv.0", channels, 1, 3, 3, bias=True)
    parts.add("embed.conv.{}", channels, 1, 3, 3, repeats=halvings - 1, bias=True)
    parts.add("embed.conv.{}", channels, channels, 1, 1, repeats=halvings - 1, bias=True)
    parts.add("embed.out", hidden, channels * final, bias=True)
    buckets = c.size("bias_max_distance", default=1000) * (1 if c.flag("bias_symmetric", False) else 2)
    parts.add("relative_attention_bias_layer.bias_values", buckets, heads)
    layer = "encoders.{}."
    for name in ("feed_forward_in", "feed_forward_out"):
        parts.add(f"{layer}{name}.layer_norm", hidden, repeats=count, bias=True)
        parts.add(f"{layer}{name}.gate_up_proj", 2 * inner, hidden, repeats=count, bias=True)
        parts.add(f"{layer}{name}.down_proj", hidden, inner, repeats=count, bias=True)
    for side in ("q_proj", "k_proj", "v_proj"):
        parts.add(f"{layer}self_attn.{side}", attending, hidden, repeats=count, bias=True)
    parts.add(f"{layer}self_attn.o_proj", hidden, attending, repeats=count, bias=True)
    wide, deep = c.size("ext_pw_out_channel", default=1024), c.size("depthwise_separable_out_channel", default=1024)
    many, kernel = hidden * c.size("depthwise_multiplier", default=1), c.size("kernel_size", default=3)
    parts.add(f"{layer}conv.layer_norm", hidden, repeats=count, bias=True)
    parts.add(f"{layer}conv.glu.ext_pw_conv_1d", 2 * wide, hidden, 1, repeats=count, bias=True)
    for name in ("b1", "b2"):
        parts.add(f"{layer}conv.glu.{name}", 1, wide, 1, repeats=count, suffix="")
    parts.add(f"{layer}conv.dw_sep_conv_1d.dw_conv", many, 1, kernel, repeats=count, bias=True)
    parts.add(f"{layer}conv.dw_sep_conv_1d.pw_conv", deep, many, 1, repeats=count, bias=True)
    parts.add(f"{layer}conv.ext_pw_conv_1d", wide, hidden, 1, repeats=count, bias=True)
    for name in ("layer_norm_att", "layer_norm"):
        parts.add(layer + name, hidden, repeats=count, bias=True)
    projector = Parts(f"{_EXTENDED}audio_embed.")
    joined = hidden * c.size("downsample_rate", default=1)
    for name in ("speech", "vision_speech"):
        projector.add(f"up_proj_for_{name}", out, joined, bias=True)
        projector.add(f"down_proj_for_{name}", out, out, bias=True)
    buffers = tuple(
        (f"{parts.prefix}encoder_embedding.{name}", 1, Tensor(f"audio.{name}", (bins,), "buffer"))
        for name in ("global_mean", "global_invstd")
    )
    tower = parts.tower("audio tower")
    return msgspec.structs.replace(tower, tensors=tower.tensors + buffers), projector.tower("projector")
