"""`narrows roofline`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import Command, as_json, draw, emit, example, lang, option, plot, sizes, waiting
from narrows.cli.shared import shared
from narrows.report.i18n import _


def _run(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.roofline import roofline

    sizes(options, "memory")
    answer = roofline(model, progress=waiting(), **options)
    draw(answer, plot)
    emit(answer, as_json)
    return 0


command = Command(
    "roofline",
    callback=_run,
    help=_(
        "What bounds prefill and decode of MODEL on --gpu: compute, memory bandwidth, interconnect or overhead; where "
        "that turns; and what would help, each change computed. MODEL is what 'narrows fit' takes: a config.json, a "
        "GGUF file, a directory, a name from 'narrows models', a hub id, or an engine's start command in quotes. "
        "Exit 0: answered, 2: bad input."
    ),
    epilog=example("narrows roofline llama-3.1-8b --gpu l40s --sweep batch=1..256 --plot bounds.png"),
    params=[
        click.Argument(["model"]),
        shared("--gpu"),
        option(
            "--prompt",
            metavar="TOKENS",
            type=int,
            help=_("Prefill: tokens of one prompt. Default: 4096, or the model's limit."),
        ),
        option("--batch", metavar="N", type=int, help=_("Decode: sequences in one step. Default: 16.")),
        option(
            "--context",
            metavar="TOKENS",
            type=int,
            help=_("Decode: tokens that each sequence has cached. Default: 4096, or the model's limit."),
        ),
        shared("--tp"),
        shared("--pp"),
        shared("--ep"),
        shared("--dp"),
        shared("--engine"),
        option(
            "--precision",
            multiple=True,
            metavar="FORMAT",
            help=_("Format of the weights: bf16, fp16, fp8, int8, fp4, int4; several are compared."),
        ),
        shared("--dtype"),
        shared("--kv-cache-dtype"),
        shared("--quantization"),
        option(
            "--max-len", metavar="TOKENS", type=int, help=_("Tokens per sequence at most. Default: prompt or context.")
        ),
        shared("--max-num-seqs"),
        shared("--max-num-batched-tokens"),
        shared("--gpu-memory-utilization"),
        shared("--enforce-eager"),
        shared("--memory"),
        option(
            "--peak",
            multiple=True,
            metavar="FORMAT=RATE",
            help=_("Peak of a device that was measured, such as bf16=362TFLOP/s, in place of the catalogue's."),
        ),
        option(
            "--bandwidth",
            metavar="RATE",
            help=_("Memory bandwidth of a device that was measured, such as 864GB/s, in place of the catalogue's."),
        ),
        option(
            "--sweep",
            metavar="RANGE",
            help=_("Many points: batch=1..256, context=1024..65536x2 (doubling), prompt=512..8192+512, batch=1,8,64."),
        ),
        option(
            "--operator", metavar="NAME", help=_("One operator's way through device memory, L2 and on-chip memory.")
        ),
        option("--generations", is_flag=True, help=_("The same load across generations of accelerators.")),
        option("--naive-attention", is_flag=True, help=_("Beside fused attention, the one that stores its scores.")),
        shared("--cpu-offload-gb"),
        shared("--speculative-config"),
        shared("--cloud"),
        shared("--assume"),
        as_json(),
        plot(),
        lang(),
    ],
)
