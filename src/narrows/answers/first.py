"""What is said before the figures of `fit`: why what they are of may not be what runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narrows.deployment import Deployment
from narrows.deployment.runs import unfit
from narrows.engines import Engine
from narrows.text import Text
from narrows.units import binary


def said_first(deployments: Sequence[Deployment], dtype: str, core: str | None) -> list[Text]:
    """Of the engine's version, its core, and of what it does not run. dtype, core: as asked for."""
    unrun = dict.fromkeys(text for one in deployments for text in (*unfit(one, dtype), *too_much(one), *too_long(one)))
    return [*engine_warnings(deployments[0].engine, core), *unrun]


def engine_warnings(engine: Engine, core: str | None) -> list[Text]:
    """Why the figures are of another version or core than the one asked for. core: as asked for."""
    return [*_older(engine), *_core(engine, core)]


def _older(engine: Engine) -> list[Text]:
    """What is said first of a version older than the oldest whose memory is known (vllm-project/vllm#2031: 0.2.5)."""
    if not engine.older:
        return []
    return [
        Text(
            "{name} {version} is older than {oldest}, the oldest whose memory is known and whose facts are taken: on "
            "several devices its KV cache was half as large as this says",
            name=engine.name,
            version=engine.older,
            oldest=engine.version,
        )
    ]


def _core(engine: Engine, asked: str | None) -> list[Text]:
    """What is said first where the environment asks for an engine core that the version has not, or not alone."""
    if asked is None or engine.name != "vllm" or asked == (engine.core or "V1"):
        return []
    switch = f"VLLM_USE_V1={asked[1:]}"
    if engine.first_core_gone:
        return [
            Text(
                "{switch} changes nothing: {engine} has no engine core V0 any more, and the figures are of V1; take it "
                "out, or name the older version that you run with --engine",
                switch=switch,
                engine=engine.label,
            )
        ]
    return [
        Text(
            "{switch} asks for an engine core of which {engine} is not known here; the figures are of its own, {core}",
            switch=switch,
            engine=engine.label,
            core=engine.core or "V1",
        )
    ]


def too_much(deployment: Deployment) -> Iterator[Text]:
    """That more memory is counted than the device has."""
    device = deployment.accelerator
    if device.memory_kind == "device" and deployment.usable > device.memory_bytes:
        yield Text(
            "--memory is {given}, and {gpu} has {memory}; what fits is as if it had that much",
            given=binary(deployment.usable),
            gpu=device.name,
            memory=binary(device.memory_bytes),
        )


def too_long(deployment: Deployment) -> Iterator[Text]:
    """What `deploy` assumes of a length beyond the model's limit."""
    most = deployment.model.max_length
    if most and deployment.max_length > most:
        said = {"length": deployment.max_length, "limit": most}
        yield from (text for text in deployment.assumptions if text.params == said)
