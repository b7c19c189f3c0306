"""What else a decoder runs, through torch: elementwise kernels, attention, and the host's time to issue an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from narrows.measure.recorder import recorded
from narrows.measure.timing import Pace, sample
from narrows.measure.torch_library import Torch
from narrows.quantity import Quantity

ELEMENTS = (2**12, 2**16, 2**20, 2**23)
HEADS, WIDTH = 16, 64
PROMPTS = (64, 256, 1024)
CONTEXTS = ((1, 128), (1, 1024), (8, 512), (8, 2048))
"""(sequences, keys of each) that attention's decode is measured at."""
_FORMATS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Kernel(msgspec.Struct, frozen=True):
    """Seconds of one kernel.

    operation: `multiply`, `silu`, `concatenate`; `attention.prefill`; `attention.decode.own` with a KV head for each
    query head and `.shared` with one for eight; `eager`. size: elements written; of attention, multiply-adds of
    queries with keys (queries × keys in sight × heads × width); of `eager`, the operators of a small block of torch
    modules that the time is one of.
    """

    operation: str
    precision: str
    size: int
    time: Quantity


def kernels(
    library: Torch,
    precisions: Sequence[str],
    pace: Pace,
    memory: int,
    told: Callable[[float], None] = lambda share: None,
) -> list[Kernel]:
    """All of them at each precision; those that take too long or too much memory are left out."""
    found = [eager(library, pace)]
    wanted = [(one, precision) for precision in precisions for one in (_elementwise, _attention)]
    for index, (measure, precision) in enumerate(wanted):
        found += measure(library, precision, pace.part(pace.left / (len(wanted) - index)), memory)
        told((index + 1) / len(wanted))
    return found


def _timed(library: Torch, run: Callable[[], object], pace: Pace) -> Quantity:
    def quietly() -> None:
        with library.inference():
            run()

    return sample(quietly, settle=library.settle, clock=pace.clock, budget=0.08).seconds


def _elementwise(library: Torch, precision: str, pace: Pace, memory: int) -> list[Kernel]:
    torch = library.torch
    found: list[Kernel] = []
    for size in ELEMENTS:
        # the smallest is measured even when time is up: a prediction needs one of each
        if size * 12 > memory or (found and not pace.left):
            break
        x = torch.ones(size, device=library.device, dtype=getattr(torch, _FORMATS[precision]))
        y = x.clone()
        half = (x[: size // 2], y[: size // 2])
        runs = {
            "multiply": partial(torch.mul, x, y),
            "silu": partial(torch.nn.functional.silu, x),
            "concatenate": partial(torch.cat, half),
        }
        found += [Kernel(name, precision, size, _timed(library, run, pace)) for name, run in runs.items()]
    return found


def _attention(library: Torch, precision: str, pace: Pace, memory: int) -> list[Kernel]:
    torch = library.torch
    attend = torch.nn.functional.scaled_dot_product_attention
    kind = getattr(torch, _FORMATS[precision])

    def heads(batch: int, tokens: int, count: int = HEADS) -> Any:
        return torch.randn(batch, count, tokens, WIDTH, device=library.device).to(kind)

    found: list[Kernel] = []
    last = 0.0
    for keys in PROMPTS:
        if 16 * HEADS * keys * (keys + 4 * WIDTH) > memory or (found and 64 * last > pace.left):
            break
        q, k = heads(1, keys), heads(1, keys)
        time = _timed(library, partial(attend, q, k, k, is_causal=True), pace)
        found.append(Kernel("attention.prefill", precision, HEADS * keys * keys * WIDTH // 2, time))
        last = time.value
    prompts = len(found)
    for batch, keys in CONTEXTS:
        if 16 * HEADS * batch * keys * WIDTH > memory or (len(found) > prompts and not pace.left):
            break
        for name, count in (("own", HEADS), ("shared", HEADS // 8)):
            q, k, v = heads(batch, 1), heads(batch, keys, count), heads(batch, keys, count)
            time = _timed(library, partial(attend, q, k, v, enable_gqa=count < HEADS), pace)
            found.append(Kernel(f"attention.decode.{name}", precision, HEADS * batch * keys * WIDTH, time))
    return found


def eager(library: Torch, pace: Pace) -> Kernel:
    """Seconds of an operator that torch modules issue one by one, as a decoder's layers do, where it does next to
    nothing: the time of a small block, by the number of its operators.
    """
    torch = library.torch
    block = _block(torch, library.device)
    x = torch.ones(1, 1, 16, device=library.device)
    with library.inference():
        count = sum(recorded(torch, lambda: block(x)).values())
    whole = sample(_inferring(library, lambda: block(x)), settle=library.settle, clock=pace.clock, budget=0.3, least=9)
    one = Quantity(whole.median / count, "s", "measured", whole.low / count, whole.high / count)
    return Kernel("eager", "", count, one)


def _inferring(library: Torch, run: Callable[[], object]) -> Callable[[], None]:
    def quietly() -> None:
        with library.inference():
            run()

    return quietly


def _block(torch: Any, device: str) -> Any:
    """A normalised gated feed-forward with residual, as decoders have it, of hidden size 16."""
    nn = torch.nn

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(16))

        def forward(self, x: Any) -> Any:
            wide = x.to(torch.float32)
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * wide.to(x.dtype)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.act = Norm(), nn.SiLU()
            self.up, self.gate, self.down = (nn.Linear(16, 16, bias=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            y = y.view(1, 1, 4, 4).transpose(1, 2).reshape(1, 1, 16)
            return x + self.down(self.act(self.gate(y)) * self.up(y))

    return nn.Sequential(*(Block() for _ in range(4))).to(device).eval()
