"""The prices of `plan`: the chapter's per-GPU shares, the instances they are shares of, and the smallest ones."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.answers.explain.subjects import Gpu
from narrows.answers.explain.types import Row, Step, number, of_kind, row, step, table, words
from narrows.hardware import Price, cheapest, prices_of
from narrows.text import Text
from narrows.units import usd

CLOUD = "aws"
_SHARED = {"a10g": "g5.24xlarge", "l40s": "g6e.48xlarge"}
"""Instances whose share per GPU comes to the chapter's price."""


def price_steps(gpus: Sequence[Gpu]) -> list[Step]:
    """What a GPU costs per hour: cited, as a share of a large instance, as the smallest instance; and per request."""
    rows: list[Row] = []
    for gpu in gpus:
        figure = number(f"{gpu.usd_per_hour:g} $", gpu.usd_per_hour, "USD/h", "cited")
        said = words(Text("the chapter's figure"))
        rows.append(row(f"{gpu.name.lower()}_cited", words(gpu.name), said, figure, known="cited"))
        share = next((price for price in prices_of(gpu.id) if price.instance == _SHARED[gpu.id]), None)
        smallest = cheapest(gpu.id, 1, CLOUD)
        rows += [_instance(gpu, name, price) for name, price in (("share", share), ("smallest", smallest)) if price]
    dates = sorted({price.as_of for gpu in gpus for price in prices_of(gpu.id) if price.cloud == CLOUD})
    return [
        step(
            "prices",
            Text(
                "$/h on demand. The chapter's prices are shares of large instances; the smallest instance has one GPU "
                "for about half of that (snapshot of {date}):",
                date=dates[-1] if dates else "–",
            ),
            table=table((Text("GPU"), Text("instance"), Text("$/h per GPU")), *rows),
        ),
        *(
            step(
                f"{gpu.name.lower()}_per_request",
                Text("{gpu}: the chapter's price, shared by its requests in practice:", gpu=gpu.name),
                f"{gpu.usd_per_hour:.2f} $/h ÷ {gpu.practice} = {usd(gpu.usd_per_hour / gpu.practice)}/h",
                of_kind(gpu.usd_per_hour / gpu.practice, "USD/h", "cited"),
            )
            for gpu in gpus
        ),
    ]


def _instance(gpu: Gpu, name: str, price: Price) -> Row:
    each, count = price.usd_per_accelerator_hour, price.accelerator_count
    shown = f"{each:.3f} $" if count == 1 else f"{price.usd_per_hour:.3f} $ ÷ {count} = {each:.3f} $"
    return row(f"{gpu.name.lower()}_{name}", words(gpu.id.upper()), words(price.label), number(shown, each, "USD/h"))
