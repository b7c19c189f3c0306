"""What engines make of weights while they load, and which names they take for a checkpoint's own method. Data."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from narrows.precision import Scheme
from narrows.precision.averages import BitsPerWeight
from narrows.precision.bitsandbytes import Bnb4
from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled, Nvfp4
from narrows.precision.integers import Int8Scaled
from narrows.precision.schemes import F32

_SCHEMES: dict[str, Scheme] = {
    "fp8 tensor": Fp8Scaled(),
    "fp8 channel": Fp8Scaled(per_channel=True),
    "fp8 block": Fp8Block(128, 128),
    "mxfp8": Microscaled(8),
    "mxfp4": Microscaled(4),
    "nvfp4": Nvfp4(input_scale=False),
    "int8 channel": Int8Scaled(scale=F32),
    "nf4": Bnb4("nf4"),
    "lut-b": BitsPerWeight("lut-b", 3125),
}


class OnLoad(msgspec.Struct, frozen=True):
    """A method that an engine applies to an unquantized checkpoint while it loads.

    of: what it quantizes, all linear weights of the layers or the experts alone. whole_first: (some versions of) the
    engine hold all weights as the checkpoint has them before they quantize.
    """

    engine: str
    method: str
    scheme: str
    of: Literal["all", "experts"]
    whole_first: bool
    source: str

    @property
    def rule(self) -> Scheme:
        """As a storage rule."""
        return _SCHEMES[self.scheme]

    @property
    def roles(self) -> tuple[str, ...]:
        """Prefixes of the roles it quantizes; empty: all."""
        return ("experts.",) if self.of == "experts" else ()


class _Facts(msgspec.Struct, frozen=True):
    names: dict[str, tuple[str, ...]]
    loads: dict[str, tuple[str, ...]]
    on_load: tuple[OnLoad, ...]


@cache
def _facts() -> _Facts:
    with open(os.path.join(os.path.dirname(__file__), "data", "quantization.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=_Facts)


def on_load(engine: str, method: str) -> OnLoad | None:
    """What `--quantization METHOD` does to an unquantized checkpoint in this engine; None if nothing of the kind."""
    return next((one for one in _facts().on_load if (one.engine, one.method) == (engine, method)), None)


def methods_on_load(engine: str) -> tuple[str, ...]:
    """The methods an engine applies while it loads; empty where narrows does not know the engine's."""
    return tuple(one.method for one in _facts().on_load if one.engine == engine)


def _family(method: str) -> str:
    return "modelopt" if method.startswith("modelopt") or method in ("nvfp4", "fp8_pb_wo") else method


def loads(engine: str, method: str) -> bool:
    """Whether an engine loads checkpoints of this method; where narrows does not know the engine's, it is taken to."""
    known = _facts().loads.get(engine)
    return known is None or _family(method).removeprefix("intel/").replace("compressed_", "compressed-") in known


def names_of(method: str) -> tuple[str, ...]:
    """Names by which an engine takes a checkpoint of this method; another name is refused."""
    family = _family(method)
    return _facts().names.get(family, (family,))


def kept(scheme: Scheme) -> Scheme:
    """What vLLM keeps of a weight stored by `scheme`: it undoes bitsandbytes' double quantization on loading."""
    if isinstance(scheme, Bnb4) and scheme.double:
        return Bnb4(scheme.kind, double=False, storage=scheme.storage)
    return scheme
