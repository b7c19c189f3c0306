"""`narrows load`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import Command, as_json, draw, emit, example, lang, option, plot, waiting
from narrows.cli.shared import shared
from narrows.report.i18n import _
from narrows.text import BadInput


def _run(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.load import load
    from narrows.units import size

    if options["readahead"] is not None:
        options["readahead"] = size("--readahead", options["readahead"])
    if options["bandwidth"] is not None:
        options["bandwidth"] = _rate(options["bandwidth"])
    answer = load(model, progress=waiting(), **options)
    draw(answer, plot)
    emit(answer, as_json)
    return 0


def _rate(text: str) -> int:
    from narrows.units import size

    try:
        return size("--bandwidth", text.strip().removesuffix("/s"))
    except BadInput:
        raise BadInput("--bandwidth is '{text}'; write bytes per second, such as 864GB/s", text=text[:60]) from None


command = Command(
    "load",
    callback=_run,
    help=_(
        "How long from storage to ready, and which stage decides? MODEL is named as for 'narrows fit', but "
        "not by a start command. --from is a kind of storage (gp3, io2, efs, fsx, nfs, nvme, s3, gcs, hub, gcsfuse, "
        "hyperdisk, tmpfs, …) or a local path, whose file system, size and page cache are looked up. Exit 0, 2: bad "
        "input."
    ),
    epilog=example("narrows load llama-3.1-8b --from gp3 --gpu l40s"),
    params=[
        click.Argument(["model"]),
        option(
            "--from", "source", metavar="STORAGE", help=_("Storage or path. Default: where MODEL lies, or the hub.")
        ),
        option("--gpu", required=True, metavar="GPU", help=_("Accelerator, a name from 'narrows gpus'.")),
        shared("--engine"),
        shared("--tp"),
        shared("--pp"),
        option("--loader", metavar="LOADER", help=_("How weights are read. Default: the engine's own.")),
        option("--concurrency", metavar="N", type=int, help=_("Reads at once and rank. Default: the loader's own.")),
        option("--bandwidth", metavar="RATE", help=_("Bandwidth of the storage, such as 125MiB/s or 2GB/s.")),
        option("--instance", metavar="NAME", help=_("Cloud machine whose limits count, such as g5.12xlarge.")),
        option("--readahead", metavar="SIZE", help=_("Bytes that one fault of a mapped file brings, such as 16MiB.")),
        option("--target", metavar="STORAGE", help=_("Where a download is put. Default: nvme.")),
        option("--warm", is_flag=True, help=_("The files are in the page cache.")),
        option("--compile-cache", is_flag=True, help=_("Compiled code of an earlier start is kept.")),
        shared("--enforce-eager"),
        shared("--dtype"),
        option("--quantization", metavar="METHOD", help=_("Quantize while it loads: fp8, bitsandbytes, …")),
        shared("--assume"),
        as_json(),
        plot(),
        lang(),
    ],
)
