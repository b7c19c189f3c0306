"""What is said before the times of `load`: why what they are of may not be what runs."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.deployment import Deployment
from narrows.deployment.runs import unfit
from narrows.hardware.prices import accelerators_of
from narrows.loading.path import Scenario
from narrows.text import Text
from narrows.units import binary


def load_warnings(deployment: Deployment, scenario: Scenario, dtype: str) -> tuple[Text, ...]:
    """Of what the engine does not run, of weights that do not fit, of a machine without the device. dtype: as asked."""
    instance = scenario.instance.id if scenario.instance else None
    return (*unfit(deployment, dtype), *_too_large(deployment, scenario.resident), *_another(deployment, instance))


def _too_large(deployment: Deployment, resident: int) -> Iterator[Text]:
    if resident > deployment.usable:
        yield Text(
            "{gpu} has {usable} of usable memory, and {weights} of weights go to each device: they do not fit, and the "
            "times are as if they did",
            gpu=deployment.accelerator.name,
            usable=binary(deployment.usable),
            weights=binary(resident),
        )


def _another(deployment: Deployment, instance: str | None) -> Iterator[Text]:
    held = accelerators_of(instance) if instance is not None else ()
    if held and deployment.accelerator.id not in held:
        yield Text(
            "--instance {instance} has {held}, not {gpu}; its limits are taken all the same",
            instance=instance,
            held=", ".join(held),
            gpu=deployment.accelerator.id,
        )
