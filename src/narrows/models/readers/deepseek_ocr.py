"""DeepSeek-OCR, behind SAM's and CLIP's picture encoders one after the other, and DeepSeek-VL2, behind SigLIP's.

Source: the weight maps of the published files, whose elements tests pin.
"""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import from_the_top
from narrows.models.readers.deepseek import read_deepseek_v2
from narrows.models.readers.remote import read_deepseek
from narrows.models.readers.towers.parts import Parts
from narrows.models.readers.unread import unread_tower
from narrows.models.spec import ModelSpec, Tower
from narrows.text import BadInput

_CLIP, _SAM = "clip-l-14-224", "sam_vit_b"
_SIGLIP = "siglip_so400m_patch14_384"
_WINDOW = 14
"""Patches on a side of SAM's attention windows."""


def read_deepseek_vl_v2(c: Fields) -> ModelSpec:
    """Of this `model_type`, DeepSeek-OCR and DeepSeek-VL2; DeepSeek-OCR 2 has another encoder."""
    vision = c.nested("vision_config")
    if vision.raw("model_name") == _SIGLIP:
        return _vl2(c, vision)
    width = vision.nested("width") if isinstance(vision.raw("width"), dict) else Fields({})
    if not (width.has(_CLIP) and width.has(_SAM)):
        raise BadInput(
            "of model_type 'deepseek_vl_v2', narrows reads DeepSeek-VL2, and DeepSeek-OCR, which has the encoders "
            "{clip} and {sam}; the encoders of this model are not read yet",
            clip=_CLIP,
            sam=_SAM,
        )
    text = c.nested("language_config")
    from_the_top(c, text)
    if text.flag("use_mla", False):
        raise BadInput("this deepseek_vl_v2 config has latent attention, which narrows does not read with pictures yet")
    spec = read_deepseek(text)
    # files repeat the decoder's fields at the top
    c.read |= text.values.keys() | {"candidate_resolutions", "global_view_pos", "tile_tag"}
    projector = c.nested("projector_config")
    into = projector.size("input_dim", default=2048)
    encoders = (_sam(width.nested(_SAM), vision.size("image_size", default=1024)), _clip(width.nested(_CLIP)))
    tower = Tower("vision tower", tuple(one for encoder in encoders for one in encoder.found))
    parts = Parts("model.")
    parts.add("projector.layers", spec.hidden, into, bias=True)
    for name in ("image_newline", "view_seperator"):  # as the file spells it
        parts.add(name, spec.hidden, suffix="")
    return msgspec.structs.replace(spec, family="deepseek_vl_v2", towers=(tower, parts.tower("projector")))


def _sam(c: Fields, image: int) -> Parts:
    """SAM's ViT-B with its neck, and two convolutions that halve the grid."""
    hidden, layers, heads = c.size("width"), c.layers("layers"), c.size("heads")
    width, side = c.divide(hidden, heads, "width", "heads"), max(image // 16, 1)
    whole = len([index for index in c.indices("global_attn_indexes") if 0 <= index < layers])
    parts = Parts("model.sam_model.")
    parts.add("patch_embed.proj", hidden, 3, 16, 16, bias=True)
    parts.add("pos_embed", 1, side, side, hidden, suffix="")
    for name, rows, columns in (
        ("attn.qkv", 3 * hidden, hidden),
        ("attn.proj", hidden, hidden),
        ("mlp.lin1", 4 * hidden, hidden),
        ("mlp.lin2", hidden, 4 * hidden),
    ):
        parts.add(f"blocks.{{}}.{name}", rows, columns, repeats=layers, bias=True)
    for name in ("norm1", "norm2"):
        parts.add(f"blocks.{{}}.{name}", hidden, repeats=layers, bias=True)
    for axis in "hw":
        for reach, repeats in ((_WINDOW, layers - whole), (side, whole)):
            parts.add(f"blocks.{{}}.attn.rel_pos_{axis}", 2 * reach - 1, width, repeats=repeats, suffix="")
    neck = 256
    parts.add("neck.0", neck, hidden, 1, 1)
    parts.add("neck.1", neck, bias=True)
    parts.add("neck.2", neck, neck, 3, 3)
    parts.add("neck.3", neck, bias=True)
    channels = c.raw("downsample_channels")
    if not isinstance(channels, list) or len(channels) != 2:
        raise BadInput("config field '{field}' must list two numbers", field=c.path + "downsample_channels")
    before = neck
    for index, stated in enumerate(channels):
        after = Fields({"downsample_channels": stated}, c.path).size("downsample_channels", most=2**16)
        parts.add(f"net_{index + 2}", after, before, 3, 3)
        before = after
    return parts


def _clip(c: Fields) -> Parts:
    """CLIP's ViT-L without its last norm."""
    hidden, layers = c.size("width"), c.layers("layers")
    patch, image = c.size("patch_size", default=14), c.size("image_size", default=224)
    c.read.add("heads")
    parts = Parts("model.vision_model.")
    parts.add("embeddings.class_embedding", hidden, suffix="")
    parts.add("embeddings.patch_embedding", hidden, 3, patch, patch)
    parts.add("embeddings.position_embedding", (image // patch) ** 2 + 1, hidden)
    parts.add("pre_layrnorm", hidden, bias=True)  # as the file spells it
    for name, rows, columns in (
        ("self_attn.qkv_proj", 3 * hidden, hidden),
        ("self_attn.out_proj", hidden, hidden),
        ("mlp.fc1", 4 * hidden, hidden),
        ("mlp.fc2", hidden, 4 * hidden),
    ):
        parts.add(f"transformer.layers.{{}}.{name}", rows, columns, repeats=layers, bias=True)
    for name in ("layer_norm1", "layer_norm2"):
        parts.add(f"transformer.layers.{{}}.{name}", hidden, repeats=layers, bias=True)
    return parts


def _vl2(c: Fields, vision: Fields) -> ModelSpec:
    """DeepSeek-VL2: the decoder is DeepSeek-V2's, or in the smallest DeepSeek MoE's."""
    text = c.nested("language_config")
    from_the_top(c, text)
    latent = text.flag("use_mla", True)
    spec = (read_deepseek_v2 if latent else read_deepseek)(text)
    c.read |= text.values.keys() | {"candidate_resolutions", "global_view_pos", "tile_tag"}
    projector = c.nested("projector_config")
    if projector.raw("projector_type", default="downsample_mlp_gelu") != "downsample_mlp_gelu":
        raise unread_tower(projector.raw("projector_type"))
    hidden = vision.size("width", default=1152)
    side, depth = projector.size("downsample_ratio", default=2, most=16), projector.size("depth", default=2, most=16)
    ratio = projector.size("mlp_ratio", default=1, most=64)
    parts = Parts("")
    wide = spec.hidden * ratio
    parts.add("projector.layers.0", wide, hidden * side**2, bias=True)
    for index in range(1, depth - 1):
        parts.add(f"projector.layers.{2 * index}", wide, wide, bias=True)
    parts.add(f"projector.layers.{2 * (depth - 1)}", spec.hidden, wide, bias=True)
    for name in ("image_newline", "view_seperator"):  # as the file spells it
        parts.add(name, spec.hidden, suffix="")
    towers = (_siglip(vision, hidden).tower(), parts.tower("projector"))
    return msgspec.structs.replace(
        spec, family="deepseek_vl_v2", dialect=f"language/{spec.dialect}", towers=(*towers, *spec.towers)
    )


def _siglip(c: Fields, hidden: int) -> Parts:
    """SigLIP's shape-optimized transformer with its pooling head, as timm names it."""
    layers, patch = c.layers("layers", default=27), c.size("patch_size", default=14)
    inner, image = int(hidden * c.factor("mlp_ratio", 3.7362)), c.size("image_size", default=384)
    c.read |= {"heads", "model_name", "model_type", "ckpt_path", "deterministic", "weight_init", "num_classes"}
    parts = Parts("vision.")
    parts.add("patch_embed.proj", hidden, 3, patch, patch, bias=True)
    parts.add("pos_embed", 1, (image // patch) ** 2, hidden, suffix="")
    for name in ("norm1", "norm2"):
        parts.add(f"blocks.{{}}.{name}", hidden, repeats=layers, bias=True)
    block = (("attn.qkv", 3 * hidden, hidden), ("attn.proj", hidden, hidden))
    feed = (("mlp.fc1", inner, hidden), ("mlp.fc2", hidden, inner))
    for name, rows, columns in (*block, *feed):
        parts.add(f"blocks.{{}}.{name}", rows, columns, repeats=layers, bias=True)
    parts.add("norm", hidden, bias=True)
    parts.add("attn_pool.latent", 1, 1, hidden, suffix="")
    for name, rows, columns in (("q", hidden, hidden), ("kv", 2 * hidden, hidden), ("proj", hidden, hidden), *feed):
        parts.add(f"attn_pool.{name}", rows, columns, bias=True)
    parts.add("attn_pool.norm", hidden, bias=True)
    return parts
