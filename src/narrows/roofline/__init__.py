"""The roofline: what bounds an operator on a device, how long it takes, and what to do about it.

The layer has the name of the question, so that `narrows.roofline` is both: the module, and (called) the question.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from narrows.roofline.roof import PRESCRIPTIONS, Bound, Roof, roof, turning_batch

__all__ = ["PRESCRIPTIONS", "Bound", "Roof", "roof", "turning_batch"]


class _Asked(ModuleType):
    """The layer, callable: once it is imported it stands in the place of the function in `narrows`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """`narrows.api.roofline`."""
        from importlib import import_module

        return import_module("narrows.api").roofline(*args, **options)


sys.modules[__name__].__class__ = _Asked
