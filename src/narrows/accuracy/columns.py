"""Bundled tables of measured rows as columns of numpy, which is loaded here and only here."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from narrows.hardware import Accelerator, accelerators


@cache
def columns(name: str) -> dict[str, Any]:
    """The columns of accuracy/data/NAME; columns of codes stand as their names. Raises BadInput without numpy."""
    try:
        import numpy as np
    except ImportError:
        from narrows.text import BadInput

        raise BadInput("scoring operators needs numpy; install it with: pip install numpy") from None
    with np.load(os.path.join(os.path.dirname(__file__), "data", name)) as file:
        found = {key: file[key] for key in file.files}
    coded = [key for key in found if f"{key}_names" in found]
    return {key: found[key] for key in found if not key.endswith("_names")} | {
        key: found[f"{key}_names"][found[key]] for key in coded
    }


def device_of(name: str) -> Accelerator:
    """The accelerator with this id."""
    return next(device for device in accelerators() if device.id == name)
