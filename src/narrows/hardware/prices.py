"""Prices: a dated snapshot of what whole instances cost per hour on demand. Its sources: data/README.md."""

from __future__ import annotations

from functools import cache

import msgspec

from narrows.hardware.catalogue import accelerator_ids, bundled, shown
from narrows.hardware.this_machine import THIS_MACHINE
from narrows.text import BadInput


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one instance costs on demand.

    usd_per_hour: of the whole instance, which holds accelerator_count accelerators. region and instance are None
    where the source names none (marketplaces). as_of: the date of the figure, or `unknown`.
    """

    accelerator_id: str
    accelerator_count: int
    usd_per_hour: float
    cloud: str
    as_of: str
    source: str
    licence: str
    region: str | None = None
    instance: str | None = None
    notes: str = ""

    @property
    def usd_per_accelerator_hour(self) -> float:
        """The share of one accelerator. It depends on the size of the instance: not a price one can pay."""
        return self.usd_per_hour / self.accelerator_count

    @property
    def label(self) -> str:
        """What the price is of, to stand beside it: `aws g5.xlarge (us-east-1)`, `vast`."""
        name = self.instance or self.cloud
        if not name.startswith(self.cloud):
            name = f"{self.cloud} {name}"
        return f"{name} ({self.region})" if self.region else name


@cache
def _prices() -> tuple[Price, ...]:
    return tuple(msgspec.json.Decoder(Price).decode_lines(bundled("prices.jsonl")))


@cache
def prices_of(accelerator_id: str) -> tuple[Price, ...]:
    """All prices for an accelerator, by number of accelerators, then by price. Raises BadInput for an unknown id."""
    if accelerator_id not in accelerator_ids() and accelerator_id != THIS_MACHINE:  # which nobody rents out
        raise BadInput("'{id}' is not the id of an accelerator; 'narrows gpus' lists them", id=shown(accelerator_id))
    found = [price for price in _prices() if price.accelerator_id == accelerator_id]
    return tuple(sorted(found, key=lambda p: (p.accelerator_count, p.usd_per_hour, p.label)))


def accelerators_of(instance: str) -> tuple[str, ...]:
    """Ids of the accelerators that an instance of this name has in the snapshot; empty where it is not in it."""
    return tuple(sorted({price.accelerator_id for price in _prices() if price.instance == instance}))


def clouds() -> tuple[str, ...]:
    """The clouds in the snapshot, by name."""
    return tuple(sorted({price.cloud for price in _prices()}))


def cheapest(accelerator_id: str, count: int = 1, cloud: str | None = None) -> Price | None:
    """The cheapest on-demand instance with `count` accelerators in the snapshot, of one cloud or of all.

    Where none has exactly as many, the cheapest of those with the next larger number, which its
    `accelerator_count` tells; None where none has enough. Raises BadInput for an unknown accelerator or cloud.

    >>> cheapest("l40s", 1, cloud="aws").label
    'aws g6e.xlarge (us-east-1)'
    """
    if count < 1:
        raise BadInput("the number of accelerators must be at least 1, not {count}", count=count)
    if cloud is not None and cloud.strip().lower() not in clouds():
        raise BadInput(
            "there are no prices of '{cloud}' in the snapshot; it has: {known}",
            cloud=shown(cloud),
            known=", ".join(clouds()),
        )
    for price in prices_of(accelerator_id):
        if price.accelerator_count >= count and (cloud is None or price.cloud == cloud.strip().lower()):
            return price
    return None
