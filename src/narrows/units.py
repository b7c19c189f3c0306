"""Sizes and rates: inside narrows they are plain numbers (bytes, bytes/s, FLOP/s, seconds); here they meet people.

GB is 10^9 bytes and GiB is 2^30 bytes. Every size that is printed says which.
"""

from __future__ import annotations

import math

from narrows.text import BadInput

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

_BINARY = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_DECIMAL = (("TB", TB), ("GB", GB), ("MB", MB), ("kB", KB))


def _scaled(value: float, steps: tuple[tuple[str, int], ...], unit: str, digits: int) -> str:
    for name, size in steps:
        if abs(value) >= size:
            return f"{value / size:,.{digits}f} {name}"
    return f"{value:,.0f} {unit}"


def gib(value: float, digits: int = 2) -> str:
    """Bytes as GiB with a fixed number of digits, for columns: `13476831232 -> '12.55 GiB'`."""
    return f"{value / GIB:,.{digits}f} GiB"


def binary(value: float, digits: int = 2) -> str:
    """Bytes in the largest binary unit that fits: `524288 -> '512.00 KiB'`."""
    return _scaled(value, _BINARY, "B", digits)


def decimal(value: float, digits: int = 2) -> str:
    """Bytes in the largest decimal unit that fits: `13476831232 -> '13.48 GB'`."""
    return _scaled(value, _DECIMAL, "B", digits)


def count(value: float) -> str:
    """A whole number with thousands separators: `524288 -> '524,288'`."""
    return f"{value:,.0f}"


def parameters(value: float) -> str:
    """A parameter count as people say it: `6738415616 -> '6.74 B'`."""
    for name, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.2f} {name}"
    return f"{value:.0f}"


def rate(flops: float) -> str:
    """FLOP/s: `3.62e14 -> '362 TFLOP/s'`."""
    if flops >= 0.9995e15:  # else three digits would round to 1e+03
        return f"{flops / 1e15:.2f} PFLOP/s"
    if flops >= 0.9995e12:
        return f"{flops / 1e12:.3g} TFLOP/s"
    return f"{flops / 1e9:.3g} GFLOP/s"


def bandwidth(bytes_per_second: float) -> str:
    """Bytes per second: `864e9 -> '864 GB/s'`, `5e6 -> '5 MB/s'`."""
    if bytes_per_second >= 1e12:
        return f"{bytes_per_second / 1e12:.2f} TB/s"
    if bytes_per_second >= 1e9:
        return f"{bytes_per_second / 1e9:.4g} GB/s"
    return f"{bytes_per_second / 1e6:.4g} MB/s"


def seconds(value: float) -> str:
    """A duration in the unit that reads best: `0.0162 -> '16.2 ms'`."""
    if value >= 999.5:  # else three digits would round to 1e+03
        return f"{value:,.0f} s"
    if value >= 0.9995:
        return f"{value:.3g} s"
    if value >= 0.9995e-3:
        return f"{value * 1e3:.3g} ms"
    return f"{value * 1e6:.3g} µs"


def usd(value: float) -> str:
    """Dollars: three digits below ten, since hourly shares are small: `1.006 -> '$1.006'`, `0.0029 -> '$0.0029'`."""
    if 0 < value < 0.0995:
        return f"${value:.{1 - math.floor(math.log10(value))}f}"
    return f"${value:,.3f}" if value < 10 else f"${value:,.2f}"


_SUFFIXES = {
    "": 1,
    "b": 1,
    "kb": KB,
    "mb": MB,
    "gb": GB,
    "tb": TB,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
}


def size(flag: str, text: str) -> int:
    """Bytes of a memory size with its unit: `44.4GiB`, `48 GB`; bare bytes from 1 MiB on. Raises BadInput otherwise."""
    written = text.strip().lower().replace(",", "")
    digits = written.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = _SUFFIXES.get(written[len(digits) :].strip())
    try:
        value = float(digits) if digits.replace(".", "", 1).isdecimal() else -1.0
    except ValueError:
        value = -1.0
    # a bare number below 1 MiB is a forgotten unit, and there are no fractions of a byte
    if unit is None or not 0 < value < 1e18 or (unit == 1 and (value < MIB or value % 1)):
        raise BadInput(
            "{flag} is '{text}'; write a size with its unit, such as 44.4GiB or 48GB (GB is 10^9, GiB is 2^30 bytes)",
            flag=flag,
            text=text[:40],
        )
    return int(value * unit)
