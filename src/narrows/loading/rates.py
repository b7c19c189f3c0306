"""Rates and times that physics does not give: looked up from the storage itself to its kind to any."""

from __future__ import annotations

import msgspec

from narrows.calibration import Coefficients, coefficients

READAHEAD = 128 * 1024
"""Bytes that Linux reads ahead of a file by itself, since 5.4 for NFS too (documentation of Azure Files)."""

Rates = Coefficients
"""By name: `stream.<storage or kind>`, `rate.<loader>`, `link.…`, `first_touch`, `memcpy`: bytes/s, or shares."""


class Rate(msgspec.Struct, frozen=True):
    """A rate in bytes/s, 80 % of observations between low and high; n = 0: assumed."""

    value: float
    low: float
    high: float
    n: int
    source: str = ""

    def times(self, factor: float) -> Rate:
        """The rate and its interval times a factor."""
        return Rate(self.value * factor, self.low * factor, self.high * factor, self.n, self.source)

    @staticmethod
    def within(value: float, rates: Rates) -> Rate:
        """A limit on paper, with the interval of what is reached of such limits."""
        reach = rates["reach"]
        return Rate(value, value * reach.low, value * reach.high, reach.n, reach.source)


def shipped() -> Rates:
    """The rates that narrows ships, fitted by scripts/fit_loading.py."""
    return coefficients("loading")


def known_rate(rates: Rates, *names: str) -> Rate:
    """The first of `names` that is known; storages of any kind stand in for one that nobody measured."""
    for name in (*names, *(f"{name.split('.')[0]}.any" for name in names)):
        found = rates.get(name)
        if found is not None:
            return Rate(found.value, found.low, found.high, found.n, found.source)
    raise KeyError(names)
