"""Accelerators and their prices: facts with their sources, found by the names people and drivers use."""

from narrows.hardware.accelerator import PRECISIONS, Accelerator, Links, Usable, precision_name
from narrows.hardware.catalogue import accelerators, select
from narrows.hardware.names import find_accelerator
from narrows.hardware.prices import Price, cheapest, clouds, prices_of
from narrows.hardware.this_machine import THIS_MACHINE

__all__ = [
    "PRECISIONS",
    "THIS_MACHINE",
    "Accelerator",
    "Links",
    "Price",
    "Usable",
    "accelerators",
    "cheapest",
    "clouds",
    "find_accelerator",
    "precision_name",
    "prices_of",
    "select",
]
