"""Which GGML type llama.cpp gives each tensor of a file type: Q4_K_M is a mix, not a type.

Source: llama.cpp, src/llama-quant.cpp (MIT), as of 2026: the rule by tensor, layer and model, and the types that stand
in where a row does not fill a block. Without an importance matrix, except where a file type cannot do without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from narrows.precision.ggml import FileType, GgmlType, ggml_types
from narrows.text import BadInput


class MixedModel(msgspec.Struct, frozen=True):
    """What the rule asks of a model.

    layers: of the whole model. heads_per_kv: query heads that share a KV head, in the first layer. experts: 0 for a
    dense model. seventy: one of the models with 80 layers that llama.cpp calls 70B. falcon: the architecture.
    """

    layers: int
    heads_per_kv: int
    experts: int = 0
    seventy: bool = False
    falcon: bool = False


_FALLBACK = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""Where rows are no multiple of 256."""

_NEVER = (
    *("_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "ssm_conv1d", "shortconv.conv.weight"),
    *("position_embd", "token_types", "per_layer_model_proj"),
)
"""Parts of names that are never quantized."""
_HALF = ("per_layer_model_proj",)
"""Of these, those that are kept in 16 bits; the others in 32."""

_TINY = ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M")
_TINIEST = ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M")
_TWO = ("IQ2_S", "IQ2_M")
_CATEGORIES = (
    ("attn_qkv.weight", "qkv"),
    ("attn_kv_b.weight", "kv_b"),
    ("attn_v.weight", "v"),
    ("attn_k.weight", "k"),
    ("attn_q.weight", "q"),
    ("attn_output.weight", "o"),
    ("ffn_up", "up"),
    ("ffn_gate", "gate"),
    ("ffn_down", "down"),
)
_LIKE_V = ("v", "qkv", "kv_b")


def _category(name: str) -> str:
    if name == "output.weight":
        return "output"
    if name in ("token_embd.weight", "per_layer_token_embd.weight"):
        return "embedding"
    return next((kind for part, kind in _CATEGORIES if part in name), "")


def _more(i: int, n: int) -> bool:
    """The layers that mixes give more bits: the first and last eighth, and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


class _Rule:
    """One pass over a model's tensors, in the order of layers: the rule counts some of them as they come."""

    def __init__(self, kind: FileType, model: MixedModel, tied: bool, like_v: int) -> None:
        self.kind, self.model, self.tied, self.like_v = kind.name, model, tied, like_v
        self.base = kind.base.name
        self.seen = {"v": 0, "down": 0, "gate": 0, "up": 0}

    def type_of(self, name: str, dims: Sequence[int]) -> str:
        """The type before fallback."""
        kind, category = self.kind, _category(name)
        if category == "output" or (self.tied and category == "embedding"):
            return self._output(dims[0])
        if kind == "MXFP4_MOE":
            return "MXFP4" if len(dims) > 2 and dims[2] > 1 else "Q8_0"
        if category == "embedding":
            return self._embedding()
        if category in _LIKE_V:
            found = self._tiny_v() if kind in _TINY else self._v()
            self.seen["v"] += 1
            return found
        if category in ("down", "gate", "up"):
            i = self.seen[category]
            self.seen[category] += 1
            if self.model.experts > 1:
                # experts and shared experts of a layer count apart, so that the layer stands in the name only
                i = int(name.split(".")[1])
            return self._down(i) if category == "down" else self._up(i)
        if category == "o":
            return self._tiny_o() if kind in _TINY else self._o()
        if category in ("q", "k"):
            return self._qk(category)
        return self.base

    def _output(self, row: int) -> str:
        if self.kind == "MXFP4_MOE" or self.model.falcon or row % ggml_types()[self.base].block:
            return "Q8_0"
        if self.kind in (*_TINY, "IQ3_XXS"):
            return "Q5_K"
        return "Q6_K" if self.base != "Q8_0" else "Q8_0"

    def _embedding(self) -> str:
        if self.kind in _TINIEST:
            return "Q2_K"
        if self.kind in (*_TWO, "IQ3_XXS"):
            return "IQ3_S"
        return "Q4_K" if self.kind in ("TQ1_0", "TQ2_0") else self.base

    def _tiny_v(self) -> str:
        if self.model.heads_per_kv >= 4 or self.model.experts >= 4:
            return "Q4_K"
        return "IQ3_S" if self.kind in _TWO else "Q2_K"

    def _v(self) -> str:
        kind, i, shared = self.kind, self.seen["v"], self.model.heads_per_kv >= 4
        found = self.base
        if kind == "Q2_K":
            found = "Q4_K" if shared else "Q3_K"
        elif (shared and kind in ("Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S")) or kind == "IQ3_M":
            found = "Q4_K"
        elif kind == "Q3_K_M":
            found = "Q5_K" if i < 2 else "Q4_K"
        elif kind == "Q3_K_L" or (shared and kind in ("IQ4_NL", "IQ4_XS")):
            found = "Q5_K"
        elif kind in ("Q4_K_M", "Q5_K_M") and _more(i, self.like_v):
            found = "Q6_K"
        elif kind == "Q4_K_S" and i < 4:
            found = "Q5_K"
        if self.model.seventy and found in ("Q3_K", "Q4_K"):
            found = "Q5_K"
        return "Q8_0" if self.model.experts == 8 else found

    def _qk(self, category: str) -> str:
        eight = self.model.experts == 8 and category == "k"
        if self.kind in _TINY:
            return "Q4_K" if eight else self.base
        if eight:
            return "Q8_0"
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(self.kind, self.base)

    def _down(self, i: int) -> str:
        kind, n, falcon = self.kind, self.model.layers, self.model.falcon
        early = i < n // 8
        if kind in _TINY:
            return ("IQ3_S" if kind in _TWO else "Q2_K") if early else self.base
        if kind == "Q2_K":
            return "Q3_K"
        if kind == "Q3_K_M":
            if i < n // 16:
                return "Q5_K"
            return "Q4_K" if not falcon or _more(i, n) else "Q3_K"
        if kind == "Q3_K_L":
            return "Q4_K" if falcon else "Q5_K"
        if kind == "Q4_K_M" and falcon:
            return "Q6_K" if i < n // 16 else "Q5_K" if _more(i, n) else "Q4_K"
        if kind in ("Q4_K_M", "Q5_K_M"):
            return "Q6_K" if _more(i, n) else self.base
        if kind == "IQ3_M":
            return "Q4_K" if early or (self.model.experts == 8 and _more(i, n)) else self.base
        if early and (kind in ("IQ4_NL", "IQ4_XS") or (kind == "Q4_K_S" and not falcon)):
            return "Q5_K"
        return "Q4_K" if early and kind == "Q2_K_S" else self.base

    def _up(self, i: int) -> str:
        n = self.model.layers
        return "IQ3_XXS" if self.kind == "IQ3_XS" and n // 8 <= i < 7 * n // 8 else self.base

    def _tiny_o(self) -> str:
        if self.model.experts == 8:
            return "Q5_K"
        if self.kind in ("IQ1_S", "IQ1_M"):
            return "IQ2_XXS"
        return "IQ3_S" if self.kind in _TWO else self.base

    def _o(self) -> str:
        if self.model.falcon:
            return "Q4_K" if self.kind == "Q3_K_L" else self.base
        if self.model.experts == 8:
            mixed = ("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M")
            return "Q5_K" if self.kind in (*mixed, "IQ4_XS") else self.base
        wider = {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}
        return wider.get(self.kind, self.base)


def _fitting(name: str, row: int, wanted: str) -> GgmlType:
    """The type, or the one that stands in for it where rows do not fill its blocks."""
    known = ggml_types()
    if row % known[wanted].block == 0:
        return known[wanted]
    other = _FALLBACK.get(wanted)
    if other is None:
        raise BadInput(
            "'{name}' has rows of {row} elements, which {type} cannot store, and llama.cpp has no type in its place; "
            "choose another file type",
            name=name,
            row=row,
            type=wanted,
        )
    return known[other if row % known[other].block == 0 else "F16"]


def mixed_types(kind: FileType, model: MixedModel, tensors: Iterable[tuple[str, Sequence[int]]]) -> dict[str, GgmlType]:
    """The type of every tensor (name, dimensions with the row's length first), given in the order of layers."""
    rows = list(tensors)
    known = ggml_types()
    tied = all(name != "output.weight" for name, _ in rows)
    rule = _Rule(kind, model, tied, sum(_category(name) in _LIKE_V for name, _ in rows))
    found = {}
    for name, dims in rows:
        if len(dims) < 2 or not name.endswith("weight") or any(part in name for part in _NEVER):
            half = any(part in name for part in _HALF) and kind.base.name != "F32"
            found[name] = known["F16" if half else "F32"]
        elif kind.base.block == 1:
            found[name] = kind.base
        else:
            found[name] = _fitting(name, dims[0], rule.type_of(name, dims))
    return found
