"""Models that see, whose classes stand beside their files on the hub: Phi 3 and 4, Qwen-VL 1, MiniCPM-V, Molmo.

Source of the names: the weight maps of the published files; tests pin their numbers of elements.
"""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers import reader_of
from narrows.models.readers.build import with_defaults
from narrows.models.readers.phi3 import read_phi3
from narrows.models.readers.towered import phi4_audio, phi4_vision
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.readers.unread import unread_setting, unread_tower
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_CLIP_336 = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
"""openai/clip-vit-large-patch14-336, by whose name these files call their tower."""


def read_phi3_v(c: Fields) -> ModelSpec:
    """Phi-3 and 3.5 vision: CLIP's tower, four patches side by side, two linear layers."""
    spec = read_phi3(c)
    tower, embedding = (c.nested(name) for name in ("img_processor", "embd_layer"))
    if tower.raw("model_name") != "openai/clip-vit-large-patch14-336" or embedding.raw("projection_cls") != "mlp":
        raise unread_tower(tower.raw("model_name"))
    prefix = "model.vision_embed_tokens."
    body = vision(Fields(dict(_CLIP_336)), "clip_vision_model", prefix + "img_processor.")
    between = Parts(prefix)
    wide = 4 * tower.size("image_dim_out", default=1024)
    if embedding.flag("with_learnable_separator", False):
        between.parameter("glb_GN", 1, 1, wide)
        between.parameter("sub_GN", 1, 1, 1, wide)
    between.mlp("", wide, spec.hidden, spec.hidden, names=("img_projection.0", "img_projection.2"))
    towers = (body.parts.tower(), between.tower("projector"))
    return msgspec.structs.replace(spec, family="phi3_v", towers=towers)


def read_phi4mm(c: Fields) -> ModelSpec:
    """Phi-4 multimodal by its own file, which holds the adapters of pictures and sound beside the decoder."""
    with_defaults(c, {"num_key_value_heads": 8})
    spec = read_phi3(c)
    c.read |= {"embd_layer", "img_processor", "audio_processor", "lm_head_bias", "full_attn_mod", "interpolate_factor"}
    towers = (*phi4_vision(Fields({}), spec.hidden), *phi4_audio(Fields({}), spec.hidden))
    layer = spec.groups[0].layer
    fused: dict[str, tuple[int, int]] = {}
    for tensor in layer.tensors():
        name = _FUSED.get(tensor.role)
        if name is not None:
            out, inner = tensor.shape
            fused[name] = (fused.get(name, (0, 0))[0] + out, inner)
    rows = []
    for task in ("vision", "speech"):
        field = f"{task}_lora"
        rank = c.nested(field).size("r", most=2**16) if c.raw(field) else 0
        for name, (out, inner) in fused.items():
            for side, shape in (("A", (rank, inner)), ("B", (out, rank))):
                stored = f"model.layers.{{}}.{name}.lora_{side}.{task}.weight"
                rows += [(stored, spec.layers, Tensor(f"adapter.{side}", shape, "plain"))] if rank else []
    adapters = (Tower("adapters", tuple(rows), reads=True),) if rows else ()
    return msgspec.structs.replace(spec, family="phi4mm", towers=towers + adapters)


_FUSED = {
    **{f"attention.{side}": "self_attn.qkv_proj" for side in "qkv"},
    "attention.o": "self_attn.o_proj",
    **{f"mlp.{side}": "mlp.gate_up_proj" for side in ("gate", "up")},
    "mlp.down": "mlp.down_proj",
}


def qwen_vl(c: Fields, out: int) -> tuple[Tower, Tower]:
    """Qwen-VL 1's tower, and the 256 learned queries that look at what it puts out."""
    hidden, layers, patch = c.size("width", default=1664), c.layers("layers", default=48), c.size("patch_size")
    inner = int(hidden * c.factor("mlp_ratio", 4.9231))
    image = c.size("image_size", default=448)
    wide = c.size("output_dim", default=4096, least=out, most=out)
    c.read |= {"heads", "image_start_id"}
    parts = Parts("transformer.visual.")
    parts.add("conv1", hidden, 3, patch, patch)
    parts.parameter("positional_embedding", _QUERIES, hidden)
    parts.add("ln_pre", hidden, bias=True)
    layer = "transformer.resblocks.{}."
    for name in ("ln_1", "ln_2"):
        parts.add(layer + name, hidden, repeats=layers, bias=True)
    for name, rows, columns in (
        ("attn.in_proj", 3 * hidden, hidden),
        ("attn.out_proj", hidden, hidden),
        ("mlp.c_fc", inner, hidden),
        ("mlp.c_proj", hidden, inner),
    ):
        parts.add(layer + name, rows, columns, repeats=layers, bias=True)
    if (image // patch) ** 2 < _QUERIES:
        raise BadInput(
            "config field '{field}' is smaller than a patch; the file contradicts itself", field=c.path + "image_size"
        )
    between = _resampler("transformer.visual.attn_pool.", _QUERIES, hidden, wide)
    between.parameter("pos_embed", _QUERIES, wide)
    after = Parts("transformer.visual.")
    after.add("ln_post", wide, bias=True)
    after.parameter("proj", wide, wide)
    return parts.tower(), Tower("projector", (*between.found, *after.found))


_QUERIES = 256
"""Learned queries, and positions that the tower has a row for; others are interpolated."""


def _resampler(prefix: str, queries: int, width: int, wide: int) -> Parts:
    """Learned queries, one attention over what a tower puts out, norms of both."""
    parts = Parts(prefix)
    parts.parameter("query", queries, wide)
    if width != wide:
        parts.add("kv_proj", wide, width)
    parts.parameter("attn.in_proj_weight", 3 * wide, wide)
    parts.parameter("attn.in_proj_bias", 3 * wide)
    parts.add("attn.out_proj", wide, wide, bias=True)
    for name in ("ln_q", "ln_kv"):
        parts.add(name, wide, bias=True)
    return parts


_DECODERS = {2.5: "llama", 2.6: "qwen2", 4.0: "llama", 4.5: "qwen3"}
"""What MiniCPM-V of a version makes words with."""


def read_minicpmv(c: Fields) -> ModelSpec:
    """MiniCPM-V 2.5 to 4.5: a decoder whose fields stand at the top, SigLIP, and learned queries between."""
    stated: Any = c.raw("version")
    try:
        version = float(stated)
    except (TypeError, ValueError):
        version = 0.0
    kind = _DECODERS.get(version)
    reader = None if kind is None else reader_of(kind)
    if reader is None:
        raise BadInput(
            "config field '{field}' is {value}, and narrows reads only: {known}",
            field="version",
            value=str(stated)[:40],
            known=", ".join(map(str, _DECODERS)),
        )
    spec = reader(c)
    part = c.nested("vision_config")
    if c.flag("drop_vision_last_layer", False):
        layers = part.layers("num_hidden_layers", default=27)
        part.values = {**part.values, "num_hidden_layers": max(1, layers - 1)}
    part.values = {**_SIGLIP_980, **part.values, "model_type": "siglip_vision_model", "vision_use_head": False}
    body = vision(part, "siglip_vision_model", "vpm.")
    named = [(name.replace("vpm.vision_model.", "vpm."), repeats, tensor) for name, repeats, tensor in body.parts.found]
    between = _resampler("resampler.", c.size("query_num", default=64), body.hidden, spec.hidden)
    between.add("ln_post", spec.hidden, bias=True)
    between.parameter("proj", spec.hidden, spec.hidden)
    c.read |= {"slice_config", "slice_mode", "image_size", "patch_size", "batch_vision_input", "batch_3d_resampler"}
    c.read |= {"vision_batch_size", "use_image_id", "mm_use_im_start_end", "scale_emb", "scale_depth", "dim_model_base"}
    c.read |= {"insert_layer_id", "max_slice_nums", "vision_encoder"}
    towers = (Tower("vision tower", tuple(named)), between.tower("projector"))
    return msgspec.structs.replace(spec, family="minicpmv", dialect=f"llm/{spec.dialect}", towers=towers)


_SIGLIP_980 = {
    "hidden_size": 1152,
    "image_size": 980,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}


def read_molmo(c: Fields) -> ModelSpec:
    """Molmo on Qwen 2: `intermediate_size` is both halves; CLIP's tower less its last layer, pooling, a gated unit."""
    for field in ("norm_after", "attention_layer_norm"):
        if c.flag(field, False):
            raise unread_setting("molmo", field)
    half = c.divide(c.size("intermediate_size"), 2, "intermediate_size", "2")
    tied = c.flag("weight_tying", False)
    c.values = {**c.values, "intermediate_size": half, "tie_word_embeddings": tied, "sliding_window": None}
    reader = reader_of("qwen2")
    assert reader is not None
    spec = reader(c)
    c.read |= {"embedding_size", "layer_norm_type", "clip_qkv", "use_position_ids", "qkv_bias", "image_feature_dropout"}
    hidden, inner = _CLIP_336["hidden_size"], _CLIP_336["intermediate_size"]
    parts, layer, layers = Parts("model.vision_backbone.image_vit."), "transformer.resblocks.{}.", 23
    parts.parameter("class_embedding", hidden)
    parts.parameter("positional_embedding", (336 // 14) ** 2 + 1, hidden)
    parts.add("patch_embedding", hidden, 3 * 14 * 14)
    parts.add("pre_ln", hidden, bias=True)
    for name in ("wq", "wk", "wv", "wo"):
        parts.add(f"{layer}attention.{name}", hidden, hidden, repeats=layers, bias=True)
    parts.add(layer + "feed_forward.w1", inner, hidden, repeats=layers, bias=True)
    parts.add(layer + "feed_forward.w2", hidden, inner, repeats=layers, bias=True)
    for name in ("attention_norm", "ffn_norm"):
        parts.add(layer + name, hidden, repeats=layers, bias=True)
    between = Parts("model.vision_backbone.")
    # the outputs of two layers, side by side
    between.parameter("pad_embed", 2, 2 * hidden)
    for name, wide in (("wq", 2 * hidden), ("wk", 2 * hidden), ("wv", 2 * hidden), ("wo", hidden)):
        between.add(f"image_pooling_2d.{name}", hidden, wide, bias=True)
    for name, out, wide in (("w1", half, hidden), ("w3", half, hidden), ("w2", spec.hidden, half)):
        between.add(f"image_projector.{name}", out, wide)
    marks = Tensor("embedding.new", (c.size("additional_vocab_size", default=128), spec.hidden), "table")
    return msgspec.structs.replace(
        spec,
        family="molmo",
        dialect="molmo",
        extra=(*spec.extra, ("embedding", marks)),
        towers=(parts.tower(), between.tower("projector")),
    )
