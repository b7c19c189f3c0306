"""`precision` and `weights`: what a model weighs."""

from __future__ import annotations

from narrows.answers.explain.subjects import NAMED, model, origin, short
from narrows.answers.explain.types import CHAPTER, Row, Topic, exact, fixed, number, of_kind, row, step, table, words
from narrows.models import ModelSpec
from narrows.precision import FORMATS
from narrows.precision.integers import Gptq
from narrows.text import Text
from narrows.units import GB, GIB, count, decimal, gib

_PRECISIONS = (
    ("FP32", ("float32",)),
    ("FP16, BF16", ("float16", "bfloat16")),
    ("FP8, INT8", ("float8_e4m3fn", "int8")),
    ("FP4, INT4", ("float4_e2m1", "int4")),
)

_FILES = (9.98 * GB, 3.5 * GB)
"""The two weight files of Llama-2-7b-chat-hf as the chapter shows them."""


def precision() -> Topic:
    """Bytes per parameter of each precision, and 7 × 10⁹ parameters at each."""
    spec = model()
    own = spec.precision.dtype
    rows = []
    for name, formats in _PRECISIONS:
        bits = FORMATS[formats[0]].bits
        size = FORMATS[formats[0]].bytes_for(NAMED)
        rows.append(
            row(
                formats[0],
                words(name),
                number(str(bits), bits, "bit"),
                number(f"{bits / 8:g}", bits / 8, "B"),
                number(decimal(size, 1), size, "B"),
            )
        )
    packed = Gptq(4, 128)
    side = 4096
    real = sum(part.bytes for part in packed.stored(side, side, own))
    return Topic(
        "precision",
        Text("Precision: bytes per parameter"),
        (
            step(
                "table",
                Text("A model's size is its parameters × the bytes of one. 7B means 7 × 10⁹ parameters, not bytes:"),
                table=table(
                    (Text("precision"), Text("bits"), Text("bytes per parameter"), Text("7 × 10⁹ parameters")), *rows
                ),
            ),
            step(
                "dtype",
                Text(
                    "The config names the precision of the checkpoint as torch_dtype (newer files: dtype). "
                    "{model} says {dtype}:",
                    model=short(spec),
                    dtype=own.name,
                ),
                f"{own.bits} bit ÷ 8 = {own.bits // 8} B",
                exact(own.bits // 8, "B"),
            ),
            step(
                "packed",
                Text(
                    '"4 bits" hides the scales: GPTQ with one scale and zero point per {group} weights stores for a '
                    "[{side}, {side}] matrix:",
                    group=packed.group,
                    side=str(side),
                ),
                Text(
                    "{bytes} B × 8 ÷ ({side} × {side}) = {bits} bits per parameter",
                    bytes=real,
                    side=str(side),
                    bits=fixed(real * 8 / side**2, 3),
                ),
                exact(real * 8 / side**2, "bit"),
            ),
        ),
        sources=("IEEE 754; OCP: OFP8 and Microscaling Formats v1.0",),
        more="narrows models",
    )


_COMPONENTS = {
    "embedding": Text("embedding"),
    "attention": Text("attention"),
    "mlp": Text("feed-forward"),
    "norms": Text("norms"),
    "head": Text("head"),
}


def _components(spec: ModelSpec) -> list[Row]:
    """Parameters by component, each with the shapes that give them."""
    rows = []
    for name, label in _COMPONENTS.items():
        found = [line for line in spec.tensor_table() if line.component == name]
        by_shape: dict[tuple[int, ...], int] = {}
        for line in found:
            shape = tuple(sorted(line.tensor.shape))
            by_shape[shape] = by_shape.get(shape, 0) + line.count
        written = " + ".join(
            (f"{times} × " if times > 1 else "") + " × ".join(map(str, shape)) for shape, times in by_shape.items()
        )
        total = sum(line.elements for line in found)
        rows.append(row(name, words(label), words(written), number(count(total), total, "parameters")))
    return rows


def weights() -> Topic:
    """Llama-2-7b: estimated from its name, exact from its tensors, and as files; GB against GiB."""
    spec = model()
    width = spec.precision.dtype.bits // 8
    estimate, parameters, size = NAMED * width, spec.unique_parameters(), spec.checkpoint_bytes()
    files = sum(_FILES)
    return Topic(
        "weights",
        Text(
            "Weights: Llama-2-7b is {estimate}, {decimal} and {binary}",
            estimate=decimal(estimate, 0),
            decimal=decimal(size),
            binary=gib(size),
        ),
        (
            step(
                "estimate",
                Text("Estimated from the name: 7B parameters in {dtype}.", dtype=spec.precision.dtype.name),
                f"{NAMED / 10**9:g} × 10⁹ × {width} B = {decimal(estimate, 0)}",
                exact(estimate, "B"),
            ),
            step(
                "components",
                Text("Counted from the tensors that the config implies:"),
                table=table((Text("component"), Text("tensors × shape"), Text("parameters")), *_components(spec)),
            ),
            step(
                "parameters",
                Text("All together:"),
                Text("{n} parameters", n=parameters),
                exact(parameters, "parameters"),
            ),
            step(
                "bytes",
                Text("Times the bytes of one:"),
                f"{count(parameters)} × {width} B = {count(size)} B = {decimal(size)} = {gib(size)}",
                exact(size, "B"),
            ),
            step(
                "files",
                Text("The two files of the checkpoint, as the chapter shows them, agree:"),
                f"{_FILES[0] / GB:g} GB + {_FILES[1] / GB:g} GB = {decimal(files)}",
                of_kind(files, "B", "cited"),
            ),
            step(
                "rounding",
                Text(
                    "What the name hides: 6.74 was rounded up to 7, so the estimate is too high by {percent} %.",
                    percent=fixed((estimate / size - 1) * 100, 1),
                ),
                f"{decimal(estimate)} ÷ {decimal(size)} = {estimate / size:.3f}",
                exact(estimate / size, "1"),
            ),
            step(
                "units",
                Text(
                    'What the unit hides: GB is 10⁹ bytes, GiB is 2³⁰. A tool that counts GiB and writes "GB" '
                    "shows the "
                    "same weights as {gib} GB. The two differ by {percent} %.",
                    gib=fixed(size / GIB, 2),
                    percent=fixed((GIB / GB - 1) * 100, 1),
                ),
                f"2³⁰ ÷ 10⁹ = {GIB / GB:.4f}",
                exact(GIB / GB, "1"),
            ),
        ),
        (CHAPTER, origin(spec)),
        more="narrows models llama-2-7b",
    )
