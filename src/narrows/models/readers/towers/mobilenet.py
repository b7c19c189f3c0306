"""MobileNet V5, the tower of Gemma 3n: convolutions, and attention with one head of keys and values.

Its shape is fixed by its name. Source: timm 1.0.31's `mobilenetv5_300m_enc` (Apache-2.0).
"""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import Parts
from narrows.models.readers.unread import unread_tower

NAME = "mobilenetv5_300m_enc"
_STEM, _OUT = 64, 2048


def mobilenet(c: Fields, prefix: str) -> Body:
    """The tower with the fusion of its last two stages, which ends 2,048 wide. Raises BadInput for another one."""
    stated = c.raw("architecture", default=NAME)
    if stated != NAME or c.raw("model_args"):
        raise unread_tower(stated)
    c.read |= {"do_pooling", "initializer_range", "num_classes", "label_names", "pretrained_cfg", "global_pool"}
    parts = Parts(prefix + "timm_model.")
    parts.add("conv_stem.conv", _STEM, 3, 3, 3, bias=True)
    parts.add("conv_stem.bn", _STEM)
    last = _STEM
    for index, wide in enumerate((256, 512, 512)):
        _edge(parts, f"blocks.0.{index}.", last, wide, 128)
        last = 128
    for stage, width, blocks in ((1, 256, _SECOND), (2, 640, _THIRD), (3, 1280, _FOURTH)):
        for index, block in enumerate(blocks):
            name = f"blocks.{stage}.{index}."
            if len(block) == 2:
                _attention(parts, name, width, heads=block[0], pooled=bool(block[1]))
            else:
                start, wide, mid = block
                _inverted(parts, name, last, width, start, wide, mid)
            last = width
    fused = 640 + 1280
    parts.add("msfa.ffn.pw_exp.conv", 2 * fused, fused, 1, 1)
    parts.add("msfa.ffn.pw_exp.bn", 2 * fused)
    parts.add("msfa.ffn.pw_proj.conv", _OUT, 2 * fused, 1, 1)
    parts.add("msfa.ffn.pw_proj.bn", _OUT)
    parts.add("msfa.norm", _OUT)
    return Body(parts, _OUT, 1, 1, 2 * fused, (16, 16))


_ATTENDING = ((12, 1), (0, 1280, 0))
_SECOND: tuple[tuple[int, ...], ...] = ((3, 768, 5), (5, 1024, 0), (3, 1024, 0), (5, 1024, 0), (3, 1024, 0))
_THIRD: tuple[tuple[int, ...], ...] = ((5, 1536, 5), *(((5, 2560, 0),) * 7), (0, 640, 0), *(_ATTENDING * 14))
_FOURTH: tuple[tuple[int, ...], ...] = ((5, 3840, 5), *(((16, 0), (0, 2560, 0)) * 19))
"""Per block: kernel before (0: none), inner width, kernel between (0: none); or heads, and whether keys are pooled."""


def _edge(parts: Parts, name: str, inner: int, wide: int, out: int) -> None:
    parts.add(name + "conv_exp", wide, inner, 3, 3)
    parts.add(name + "bn1", wide)
    parts.add(name + "conv_pwl", out, wide, 1, 1)
    parts.add(name + "bn2", out)


def _inverted(parts: Parts, name: str, inner: int, out: int, start: int, wide: int, mid: int) -> None:
    if start:
        parts.add(name + "dw_start.conv", inner, 1, start, start)
        parts.add(name + "dw_start.bn", inner)
    parts.add(name + "pw_exp.conv", wide, inner, 1, 1)
    parts.add(name + "pw_exp.bn", wide)
    if mid:
        parts.add(name + "dw_mid.conv", wide, 1, mid, mid)
        parts.add(name + "dw_mid.bn", wide)
    parts.add(name + "pw_proj.conv", out, wide, 1, 1)
    parts.add(name + "pw_proj.bn", out)
    parts.parameter(name + "layer_scale.gamma", out)


def _attention(parts: Parts, name: str, width: int, *, heads: int, pooled: bool) -> None:
    """Queries of `heads` heads, one of keys and values, both from a smaller picture where pooled."""
    head = 64 if pooled else 96
    parts.add(name + "norm", width)
    parts.add(name + "attn.query.proj", heads * head, width, 1, 1)
    for side in ("key", "value"):
        if pooled:
            parts.add(f"{name}attn.{side}.down_conv", width, 1, 3, 3)
            parts.add(f"{name}attn.{side}.norm", width)
        parts.add(f"{name}attn.{side}.proj", head, width, 1, 1)
    parts.add(name + "attn.output.proj", width, heads * head, 1, 1)
    parts.parameter(name + "layer_scale.gamma", width)
