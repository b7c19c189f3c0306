"""`narrows measure`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from narrows.cli.options import Command, as_json, draw, emit, example, lang, option, plot, sizes
from narrows.report.i18n import _, say
from narrows.text import Text


@contextmanager
def _watching() -> Iterator[Callable[[float, Text], None]]:
    """What is told how far the probes are: a bar on a terminal, gone before anything else is said.

    An interruption counts even where a library that is being imported swallows it: the next step asks again.
    """
    asked = False

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.default_int_handler(number, frame)

    bar = None
    if sys.stderr.isatty():
        from narrows.cli.progress import Bar

        bar = Bar(100, _("measuring"))

    def told(share: float, stage: Text) -> None:
        if asked:
            raise KeyboardInterrupt
        if bar is not None:
            bar.to(round(100 * share), 100, say(stage))

    mine = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupted) if mine else None
    try:
        yield told
    finally:
        if mine:
            signal.signal(signal.SIGINT, before)
        if bar is not None:
            bar.close()


def _drawable(plot: str | None) -> None:
    """Refuse a chart that could not be drawn before minutes of measuring. Raises BadInput."""
    if plot is not None:
        from narrows.report.charts import plotting

        plotting()


def _machine(
    no_disk: bool, datasheet: str | None, no_store: bool, as_json: bool, plot: str | None, **options: Any
) -> int:
    from narrows.answers.measure import measure_machine

    _drawable(plot)
    with _watching() as told:
        answer = measure_machine(disk=not no_disk, beside=datasheet, store=not no_store, progress=told, **options)
    emit(answer, as_json)
    draw(answer, plot)
    return 0 if answer.stored or no_store else 1


def _model(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.measure_model import measure_model

    _drawable(plot)
    with _watching() as told:
        answer = measure_model(model, progress=told, **options)
    emit(answer, as_json)
    draw(answer, plot)
    return 0 if answer.agrees else 1


def _load(path: str | None, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.measure_load import measure_load

    sizes(options, "make", "most")
    if options["most"] is None:
        del options["most"]
    with _watching() as told:
        answer = measure_load(path, progress=told, **options)
    emit(answer, as_json)
    draw(answer, plot)
    return 0 if answer.verdict == "agrees" else 1


def _device() -> click.Option:
    return option("--device", metavar="DEVICE", help=_("cpu, cuda, cuda:1, mps, … Default: an accelerator, if any."))


def _seconds(default: float, help: str) -> click.Option:
    return option("--seconds", metavar="SECONDS", type=float, default=default, show_default=True, help=help)


def _commands() -> list[click.Command]:
    machine = Command(
        "machine",
        callback=_machine,
        help=_(
            "What can this machine do? Matrix products by shape and precision, memory by working set, launching, "
            "copying, the disk - measured, and kept as the accelerator this-machine, which every --gpu takes. Needs "
            "torch, or numpy for less. Exit 0: kept, 1: not kept (the machine was not quiet), 2: bad input."
        ),
        short_help=_("What can this machine do? Products, memory, launching, disk."),
        epilog=example("narrows measure machine --datasheet l40s"),
        params=[
            _device(),
            option("--scratch", metavar="DIR", help=_("Folder whose disk is measured. Default: the temporary one.")),
            option("--no-disk", is_flag=True, help=_("Leave the disk out.")),
            _seconds(80, _("Time for all probes together.")),
            option("--datasheet", metavar="GPU", help=_("Hold it against this accelerator's data sheet.")),
            option("--no-store", is_flag=True, help=_("Show it without keeping it.")),
            option("--force", is_flag=True, help=_("Keep it even though other work disturbed it.")),
            as_json(),
            plot(),
            lang(),
        ],
    )
    model = Command(
        "model",
        callback=_model,
        help=_(
            "Run the decoder of MODEL (a folder, or a config.json: then with random weights) through torch and "
            "transformers, and compare prefill and decode with what the measurement of this machine predicts. "
            "Exit 0: they agree, 1: they do not, 2: bad input."
        ),
        short_help=_("Does a real decoder run here as predicted?"),
        epilog=example("narrows measure model ./model --batch 1 --batch 8"),
        params=[
            click.Argument(["model"]),
            _device(),
            option("--precision", metavar="FORMAT", multiple=True, help=_("bf16, fp32, fp16. Default: fp32 and bf16.")),
            option(
                "--prompt",
                metavar="TOKENS",
                type=int,
                multiple=True,
                help=_("Length of a prefill. Default: 32, 128, 512."),
            ),
            option("--batch", metavar="N", type=int, multiple=True, help=_("Sequences that decode. Default: 1 to 64.")),
            option(
                "--context", metavar="TOKENS", type=int, multiple=True, help=_("Cached tokens. Default: 128, 1024.")
            ),
            _seconds(300, _("Time for all points together.")),
            as_json(),
            plot(),
            lang(),
        ],
    )
    load = Command(
        "load",
        callback=_load,
        help=_(
            "What does loading take here? Loads a checkpoint (a safetensors or GGUF file, a folder, an http address) "
            "with every loader installed, cold and proven so, beside the limits of disk and memory in the same "
            "minutes; compares with what the laws of 'narrows load' say, and names the narrow stage. Only reads. "
            "Exit 0: they agree, 1: they do not or the machine was not steady, 2: bad input."
        ),
        short_help=_("What does loading take here, and which stage is narrow?"),
        epilog=example("narrows measure load ./model.safetensors --pairs 5"),
        params=[
            click.Argument(["path"], required=False),
            option("--make", metavar="SIZE", help=_("Make a checkpoint of that size instead, gone afterwards.")),
            option("--scratch", metavar="DIR", help=_("Folder to make it in. Default: the temporary one.")),
            option(
                "--loader",
                metavar="LOADER",
                multiple=True,
                help=_("Only this loader; again for more. Default: all installed."),
            ),
            option("--pairs", metavar="N", type=int, default=5, show_default=True, help=_("Rounds of every loader.")),
            option(
                "--ranks", metavar="N", type=int, default=1, show_default=True, help=_("Processes that load at once.")
            ),
            _device(),
            _seconds(600, _("No new round after that.")),
            option("--most", metavar="SIZE", help=_("Of a checkpoint in many files, the first ones. Default: 8GiB.")),
            option("--calibrate", is_flag=True, help=_("Keep what was measured for predictions on this machine.")),
            as_json(),
            plot(),
            lang(),
        ],
    )
    return [machine, model, load]


command = click.Group(
    "measure",
    commands=_commands(),
    help=_("What can this really do? Measurements on this machine, beside what is predicted."),
    params=[lang()],
    no_args_is_help=True,
)
