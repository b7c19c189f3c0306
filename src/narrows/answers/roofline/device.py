"""An accelerator with figures that its user gives: measured peaks and bandwidth in place of those on paper."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from narrows.hardware import PRECISIONS, Accelerator, precision_name
from narrows.text import BadInput

_FLOPS = {"": 1.0, "G": 1e9, "T": 1e12, "P": 1e15}
_BYTES = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)"


def with_figures(device: Accelerator, peaks: Sequence[str], bandwidth: str | None) -> Accelerator:
    """The device with peaks such as `bf16=435GFLOP/s` and a bandwidth such as `34GB/s`. Raises BadInput.

    Where one peak is given, the others on paper say nothing of the same device any more, and are left out.
    """
    given: dict[str, float | None] = dict.fromkeys(PRECISIONS) if peaks else {}
    for text in peaks:
        name, _, value = text.partition("=")
        found = re.fullmatch(_NUMBER + r"\s*([GTP]?)(?:FLOPS|FLOP/S|FLOPs|FLOP/s)?", value.strip())
        if found is None or not 1e6 <= float(found[1]) * _FLOPS[found[2]] <= 1e19:
            raise BadInput(
                "--peak is '{text}'; write a precision and its FLOP/s, such as bf16=362TFLOP/s", text=text[:60]
            )
        name = precision_name(name)
        if given[name] is not None:
            raise BadInput("--peak gives {precision} twice; give one figure for it", precision=name)
        given[name] = float(found[1]) * _FLOPS[found[2]]
    if bandwidth is not None:
        found = re.fullmatch(_NUMBER + r"\s*([MGT]B)(?:/s)?", bandwidth.strip())
        if found is None or not 1e6 <= float(found[1]) * _BYTES[found[2]] <= 1e15:
            raise BadInput("--bandwidth is '{text}'; write bytes per second, such as 864GB/s", text=bandwidth[:60])
        given["memory_bandwidth"] = float(found[1]) * _BYTES[found[2]]
    return msgspec.structs.replace(device, **given) if given else device
