"""Columns of measured rows as compressed numpy files, the same bytes at every run."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

DEVICES = {
    "a100_sxm": "a100-sxm-80gb",
    "h100_sxm": "h100-sxm",
    "l40s": "l40s",
    "b200_sxm": "b200-sxm",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}
"""Systems of aiconfigurator → accelerators."""


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a compressed CSV file."""
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def codes(name: str, values: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
    """A column of names: which of them row by row, and `NAME_names`."""
    values = list(values)
    names = sorted(set(values))
    number = {value: index for index, value in enumerate(names)}
    return {name: np.array([number[value] for value in values], dtype=np.uint8), f"{name}_names": np.array(names)}


def seconds(milliseconds: Iterable[str]) -> np.ndarray[Any, Any]:
    """Times in seconds, to three digits."""
    return np.array([float(f"{float(value) / 1e3:.2e}") for value in milliseconds], dtype=np.float32)


def write(path: Path, columns: dict[str, np.ndarray[Any, Any]]) -> None:
    """An .npz file without times of its own."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        for key, array in columns.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{key}.npy"), buffer.getvalue(), compress_type=zipfile.ZIP_LZMA)
    print(f"{path.name}: {path.stat().st_size:,} bytes, {len(columns['seconds']):,} rows")
