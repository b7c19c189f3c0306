"""narrows: what limits a large language model on given hardware.

The functions of the command line, as Python:

    import narrows
    print(narrows.fit("llama-2-7b", gpu=["a10g", "l40s"], max_len=4096))

Everything is loaded when first asked for, so `import narrows` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.api import BadInput as BadInput
    from narrows.api import accuracy as accuracy
    from narrows.api import check as check
    from narrows.api import explain as explain
    from narrows.api import fit as fit
    from narrows.api import gpus as gpus
    from narrows.api import load as load
    from narrows.api import load_model as load_model
    from narrows.api import measure_load as measure_load
    from narrows.api import measure_machine as measure_machine
    from narrows.api import measure_model as measure_model
    from narrows.api import model as model
    from narrows.api import models as models
    from narrows.api import roofline as roofline

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "__version__",
    "accuracy",
    "check",
    "explain",
    "fit",
    "gpus",
    "load",
    "load_model",
    "measure_load",
    "measure_machine",
    "measure_model",
    "model",
    "models",
    "roofline",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("narrows.api"), name)
    raise AttributeError(f"module 'narrows' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
