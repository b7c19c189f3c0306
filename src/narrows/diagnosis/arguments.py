"""Causes before anything is loaded: arguments that the model or the device refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from narrows.deployment import check_split
from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import SHORTEST, Situation
from narrows.text import BadInput, Text

_HEADS: Final = re.compile(r"\((\d{1,6})\) must be divisible by tensor parallel size \((\d{1,4})\)")
_BLOCKS: Final = re.compile(r"= (\d{1,6}) is not divisible by weight quantization block_n = (\d{1,4})")
_DERIVED: Final = re.compile(
    r"max_model_len \((\d{1,12})\) is greater than the derived max_model_len \(\D{0,60}(\d{1,12})"
)


def heads(s: Situation) -> Found | None:
    """Tensor parallelism that does not divide the attention heads."""
    error = s.seen.error or ""
    if "must be divisible by tensor parallel size" not in error:
        return None
    match = _HEADS.search(error)
    if match is None or not int(match[1]) or not int(match[2]):
        return Found("heads-do-not-divide", Text("the tensor-parallel size must divide the attention heads"), [])
    count, asked = int(match[1]), int(match[2])
    works = [n for n in range(1, min(count, 128) + 1) if count % n == 0 and n != asked and _cuts(s, n)]
    nearest = sorted(works, key=lambda n: (abs(n - asked), n))[:3]
    return Found(
        "heads-do-not-divide",
        Text(
            "tensor parallelism cuts {count} attention heads into {asked} equal parts, which is not possible",
            count=count,
            asked=asked,
        ),
        [
            s.either(
                {"--tensor-parallel-size": str(n)},
                Text("{count} heads on each of {n} ranks", count=count // n, n=n)
                if n > 1
                else Text("all {count} heads on one device", count=count),
                tensor_parallel=n,
            )
            for n in nearest
        ],
    )


def _cuts(s: Situation, ranks: int) -> bool:
    """Whether the model, where it is known, can be cut for so many ranks: its KV heads too."""
    if s.made.model is None:
        return True
    try:
        check_split(s.made.model, ranks, 1)
    except BadInput:
        return False
    return True


def blocks(s: Situation) -> Found | None:
    """Experts in FP8 with a scale per block, which tensor parallelism cuts through."""
    match = _BLOCKS.search(s.seen.error or "")
    ranks = s.settings.tensor_parallel or 1
    if match is None or not int(match[2]) or ranks == 1:
        return None
    part, block = int(match[1]), int(match[2])
    whole = [n for n in range(1, ranks) if ranks * part % n == 0 and ranks * part // n % block == 0 and _cuts(s, n)]
    return Found(
        "blocks-do-not-divide",
        Text(
            "tensor parallelism over {ranks} ranks cuts the experts into {part} columns, which is not a whole number "
            "of the blocks of {block} that have an FP8 scale each",
            ranks=ranks,
            part=part,
            block=block,
        ),
        [
            s.either(
                {"--enable-expert-parallel": ""},
                Text("whole experts on every rank, none of them cut"),
                expert_parallel=s.of_all_replicas(ranks),
            ),
            s.either(
                {"--tensor-parallel-size": str(whole[-1])},
                Text(
                    "{part} columns of every expert on each of {n} ranks", part=ranks * part // whole[-1], n=whole[-1]
                ),
                tensor_parallel=whole[-1],
            )
            if whole and whole[-1] > 1
            else None,
        ],
    )


def beyond_the_model(s: Situation) -> Found | None:
    """A longest request beyond what the model was made for."""
    match = _DERIVED.search(s.seen.error or "")
    if match is None:
        return None
    asked, limit = int(match[1]), int(match[2])
    if not 0 < limit < asked:
        return None
    return Found(
        "length-beyond-the-model",
        Text("--max-model-len is {asked}, and the model has {limit} positions", asked=asked, limit=limit),
        [s.either({"--max-model-len": str(limit)}, Text("the model's own limit"), max_length=limit)],
    )


def no_bfloat16(s: Situation) -> Found | None:
    """A device without bfloat16."""
    if "Bfloat16 is only supported on GPUs" not in (s.seen.error or ""):
        return None
    return Found(
        "no-bfloat16",
        Text("{gpu} does not compute in bfloat16, the format of this checkpoint", gpu=s.seen.gpu or Text("the device")),
        [
            s.either({"--dtype": "half"}, Text("float16 instead: as many bytes"), dtype="float16"),
            *(_half_and_less(s) if s.made.deployment is not None else ()),
        ],
    )


def _half_and_less(s: Situation) -> Iterator[Mend | None]:
    """What float16 takes besides, where it alone leaves no room: shorter requests, more devices."""
    half = s.tried(dtype="float16")
    if half is None or half.starts:
        return
    longest = room.predicted_length(s, s.length or 0, dtype="float16")
    if longest is not None and longest >= SHORTEST:
        yield s.mend_by(
            {"--dtype": "half", "--max-model-len": str(longest)},
            Text("float16 instead, and requests of at most {n} tokens", n=longest),
            s.tried(dtype="float16", max_length=longest),
        )
    for ranks in (2, 4, 8, 16):
        found = s.tried(dtype="float16", tensor_parallel=ranks) if ranks > (s.settings.tensor_parallel or 1) else None
        if found is not None and found.starts:
            yield s.mend_by(
                {"--dtype": "half", "--tensor-parallel-size": str(ranks)},
                Text("float16 instead, weights and KV heads shared by {n} devices", n=ranks),
                found,
            )
            return


def refused(s: Situation) -> Found | None:
    """Anything else that is refused before loading."""
    if s.seen.stage != "arguments" or not s.seen.error:
        return None
    return Found(
        "bad-argument", Text("the engine refuses its arguments: {error}", error=(s.seen.error or "").rstrip(".")), []
    )
