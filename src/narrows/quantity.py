"""A number at the boundary of a question: its value, its unit, how it is known, and its interval where predicted."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["exact", "measured", "predicted", "assumed", "cited"]


class Quantity(msgspec.Struct, frozen=True, omit_defaults=False):
    """`value` in `unit`; `kind` says how it is known; `low` and `high` bound a prediction (None where there is none).

    exact: follows from the file by arithmetic. measured: read off a machine. predicted: computed by a model.
    assumed: chosen for lack of a fact. cited: quoted from a source.
    """

    value: float
    unit: str
    kind: Kind = "exact"
    low: float | None = None
    high: float | None = None
