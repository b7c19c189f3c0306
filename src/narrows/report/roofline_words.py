"""Words of the roofline's report: what time is spent on, phases, bounds, deployments."""

from __future__ import annotations

from narrows.answers.roofline.types import Bounds, Roofline, Spending
from narrows.report.charts import label as cut
from narrows.report.i18n import _
from narrows.roofline.timed import Cause
from narrows.units import count

SPENT: tuple[Spending, ...] = ("weights", "kv_cache", "state", "activations", "compute", "interconnect", "overhead")
"""In the order of bars."""
SMALL = 0.005
"""What takes less of a phase's time than this is too small to see, or to have a row of its own."""


def spent_word(name: Spending) -> str:
    """What time goes to."""
    return {
        "weights": _("moving weights"),
        "kv_cache": _("moving KV cache"),
        "state": _("moving state"),
        "activations": _("moving activations"),
        "compute": _("arithmetic"),
        "interconnect": _("interconnect"),
        "overhead": _("overhead"),
    }[name]


def phase_word(name: str) -> str:
    """The phase."""
    return _("prefill") if name == "prefill" else _("decode")


def kind_word(kind: str) -> str:
    """Operators of one kind."""
    return {
        "gemm": _("matrix products"),
        "attention": _("attention"),
        "experts": _("experts"),
        "scan": _("recurrences"),
        "step": _("steps of the engine"),
        "elementwise": _("norms and other element-wise work"),
    }.get(kind, kind)


def bound_word(cause: Cause) -> str:
    """The bound, short, for columns."""
    return {
        "compute": _("compute"),
        "memory bandwidth": _("memory"),
        "interconnect": _("interconnect"),
        "overhead": _("overhead"),
    }[cause]


def headline(answer: Roofline, name: str) -> str:
    """What was asked: the model and the load of both phases, or of the one it has."""
    figures = {"name": name, "prompt": count(answer.prompt)}
    if not answer.generates:
        one = _("{name}: prefill of one token")
        return (one if answer.prompt == 1 else _("{name}: prefill of {prompt} tokens")).format(**figures)
    text = (
        _("{name}: prefill of one token, decode of {batch} × {context} tokens")
        if answer.prompt == 1
        else _("{name}: prefill of {prompt} tokens, decode of {batch} × {context} tokens")
    )
    return text.format(batch=count(answer.batch), context=count(answer.context), **figures)


def label(one: Bounds) -> str:
    """A deployment: `2 × L40S TP2 fp8`."""
    short = one.gpu_name.split(" ", 1)[-1]  # without the vendor
    name = short if one.count == 1 else f"{one.count} × {short}"
    split = "".join(f" {flag}{n}" for flag, n in (("TP", one.tensor_parallel), ("PP", one.pipeline_parallel)) if n > 1)
    return f"{name}{split} {one.quantization or one.precision}"


def short(one: Bounds, longest: int = 40) -> str:
    """A deployment in at most so many characters, what tells it from others of its device at the end."""
    return cut(label(one), longest, len(one.quantization or one.precision) + 1)


def least(value: float) -> str:
    """A number with as many digits as tell something: `0.95`, `15.9`, `1,365`."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
