"""Logs of engines → Observation: plain values with the lines that said them."""

from narrows.observe.observation import (
    Evidence,
    Observation,
    OutOfMemory,
    Serving,
    Settings,
    Stage,
    Terms,
    missing,
)
from narrows.observe.parser import observe, observe_path

__all__ = [
    "Evidence",
    "Observation",
    "OutOfMemory",
    "Serving",
    "Settings",
    "Stage",
    "Terms",
    "missing",
    "observe",
    "observe_path",
]
