"""What a torch program runs: its operators with their shapes, as they are issued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import msgspec

Sort = Literal["product", "attention", "activation", "elementwise", "copy", "view"]

PRODUCTS = ("linear", "mm", "addmm", "bmm", "baddbmm", "matmul", "mkldnn_linear")
GROUPED = "_grouped_mm"
"""The product of tokens that are sorted by expert, each with its expert's matrix."""
ACTIVATIONS = ("silu", "gelu", "exp", "cos", "sin", "tanh", "sigmoid", "softmax", "_softmax", "softplus", "erf", "log")
"""Operators that compute something costly of every element."""
COPIES = ("cat", "clone", "copy_", "contiguous", "index", "index_select", "embedding", "gather", "repeat", "slice_copy")
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class Call(msgspec.Struct, frozen=True):
    """One operator as it was issued.

    m, k, n, copies: of a product. work: of attention, queries × keys in sight × heads × width; queries: its new tokens
    of a sequence; group: query heads that share a KV head. elements: written. bytes: read and written; gathers count
    the rows that they take, products of experts the matrices that they read.
    """

    name: str
    sort: Sort
    precision: str
    m: int = 0
    k: int = 0
    n: int = 0
    copies: int = 1
    work: int = 0
    queries: int = 0
    group: int = 1
    elements: int = 0
    bytes: int = 0

    @property
    def flops(self) -> int:
        """Of products and attention; a multiply-add is 2."""
        return 2 * self.m * self.k * self.n * self.copies + 4 * self.work


def recorded(torch: Any, run: Callable[[], object]) -> Counter[Call]:
    """Run a program and count its operators; those alike in all their shapes are one."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    found: Counter[Call] = Counter()

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            inputs = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
            outputs = [one for one in tree_leaves(out) if isinstance(one, torch.Tensor)]
            found[call_of(func, inputs, outputs, kwargs or {})] += 1
            return out

    with Recorder():
        run()
    return found


def call_of(func: Any, inputs: list[Any], outputs: list[Any], settings: dict[str, Any]) -> Call:
    """One issued operator as a `Call`; inputs and outputs are its tensors."""
    name = func.__name__.partition(".")[0]
    if not outputs:
        return Call(name, "view", "")
    out = outputs[0]
    precision = _PRECISIONS.get(str(out.dtype).rpartition(".")[2], "fp32")
    changes = bool(getattr(getattr(func, "_schema", None), "is_mutable", False))
    if not changes and any(_same_storage(out, one) for one in inputs):
        return Call(name, "view", precision)
    elements = sum(one.numel() for one in outputs)
    written = sum(one.numel() * one.element_size() for one in outputs)
    if name == GROUPED and len(inputs) >= 3 and inputs[1].dim() == 3:
        return _grouped(name, precision, inputs, out)
    if name.removesuffix("_") in PRODUCTS and len(inputs) >= 2:
        return _product(name, precision, inputs, out, elements)
    if "scaled_dot_product" in name and len(inputs) >= 3:
        return _attention(name, precision, inputs, out, settings)
    if name in COPIES:
        return Call(name, "copy", precision, elements=elements, bytes=2 * written)
    sort: Sort = "activation" if name.removesuffix("_") in ACTIVATIONS else "elementwise"
    read = sum(one.numel() * one.element_size() for one in inputs)
    # a reduction works on what it reads
    largest = max([elements, *(one.numel() for one in inputs)])
    return Call(name, sort, precision, elements=largest, bytes=read + written)


def _same_storage(a: Any, b: Any) -> bool:
    try:
        return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and a.numel())
    except (RuntimeError, NotImplementedError):
        return False  # a tensor without storage


def _product(name: str, precision: str, inputs: list[Any], out: Any, elements: int) -> Call:
    # addmm and baddbmm begin with what is added
    first, second = inputs[1:3] if "add" in name and len(inputs) > 2 else inputs[:2]
    k = first.shape[-1]
    if second.dim() <= 2:
        n = out.shape[-1] if second.dim() == 2 else 1
        return Call(name, "product", precision, m=max(1, out.numel() // n), k=k, n=n, elements=elements)
    n = out.shape[-1]
    copies = 1
    for size in out.shape[:-2]:
        copies *= size
    return Call(name, "product", precision, m=out.shape[-2], k=k, n=n, copies=copies, elements=elements)


def _grouped(name: str, precision: str, inputs: list[Any], out: Any) -> Call:
    """A product per expert that any token was sent to, all with the mean number of rows."""
    tokens, weights, ends = inputs[:3]
    rows, (k, n) = tokens.shape[0], weights.shape[1:]
    bounds = [0, *ends.tolist()]
    busy = max(1, sum(b > a for a, b in pairwise(bounds)))
    read = busy * k * n * weights.element_size()
    return Call(
        name,
        "product",
        precision,
        m=max(1, round(rows / busy)),
        k=k,
        n=n,
        copies=busy,
        elements=out.numel(),
        bytes=read,
    )


def _attention(name: str, precision: str, inputs: list[Any], out: Any, settings: dict[str, Any]) -> Call:
    query, key = inputs[:2]
    batch, heads, new, width = query.shape
    pairs = new * key.shape[2]
    if settings.get("is_causal"):
        pairs = (pairs + new) // 2
    return Call(
        name, "attention", precision, work=batch * heads * pairs * width, queries=new,
        group=heads // max(1, key.shape[1]), elements=out.numel(),
        bytes=sum(one.numel() * one.element_size() for one in (query, key, key, out)),
    )  # fmt: skip
