"""What a checkpoint's tensors show of its quantization and data type where the config is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from narrows.models.stored.inventory import StoredTensor

_SIGNS: tuple[tuple[str, frozenset[str]], ...] = (
    ("exl3", frozenset({"trellis"})),
    ("exl2", frozenset({"q_weight", "q_scale"})),
    ("hqq", frozenset({"W_q"})),
    ("compressed-tensors", frozenset({"weight_packed"})),
    ("nvfp4", frozenset({"weight_scale_2"})),
    ("fp8 block", frozenset({"weight_scale_inv"})),
    ("bitsandbytes 4-bit", frozenset({"absmax", "quant_map"})),
    ("bitsandbytes int8", frozenset({"SCB"})),
    ("gptq", frozenset({"qweight", "qzeros", "g_idx"})),
    ("awq", frozenset({"qweight", "qzeros", "scales"})),
    ("torchao", frozenset({"weight_qdata"})),
    ("quanto", frozenset({"_data", "_scale"})),
    ("scaled", frozenset({"weight_scale"})),
    ("mlx", frozenset({"scales", "biases"})),
)
"""Scheme → last parts of names that only its files have together; the first that fits holds."""


def scheme_shown(tensors: Iterable[StoredTensor]) -> str:
    """The name of the quantization that the tensors show, "" for none."""
    leaves: set[str] = set()
    kinds: dict[str, str] = {}
    blocks = False
    columns: dict[str, int] = {}
    for tensor in tensors:
        leaf = tensor.name.rpartition(".")[2]
        if leaf not in leaves:
            leaves.add(leaf)
            blocks = blocks or leaf.endswith("_blocks")
            if leaf in ("qweight", "scales") and len(tensor.shape) == 2:
                columns[leaf] = tensor.shape[1]
        if tensor.format in ("I8", "U8", "F8_E4M3", "F8_E5M2") and leaf == "weight":
            kinds[leaf] = tensor.format
    for name, signs in _SIGNS:
        if signs <= leaves:
            if name == "awq" and columns.get("qweight") == columns.get("scales"):
                return "gptq"  # both pack integers, GPTQ along the input and AWQ along the output
            if name == "scaled":
                return "int8" if kinds.get("weight") == "I8" else "fp8"
            return name
    return "mxfp4" if blocks and any(leaf.endswith("_scales") for leaf in leaves) else ""


def dtype_shown(tensors: Iterable[StoredTensor]) -> str | None:
    """The float that most bytes of plain weights and biases have; None where there are none."""
    size: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.format in ("BF16", "F16", "F32") and tensor.name.endswith(("weight", "bias")):
            size[tensor.format] += tensor.bytes
    most = size.most_common(1)
    return {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[most[0][0]] if most else None
