"""Words of the answers that are codes in JSON, for people: names of terms, moments, components and verdicts."""

from __future__ import annotations

from narrows.report.i18n import _


def word(code: str) -> str:
    """The word for a code, in the language in use; a code without a word is shown as it is."""
    return {
        "usable": _("usable"),
        "weights": _("weights"),
        "kv_cache": _("KV cache"),
        "state": _("state"),
        "activations": _("activations"),
        "graphs": _("CUDA graphs"),
        "runtime": _("runtime"),
        "unclaimed": _("unclaimed"),
        "free": _("free"),
        "loaded": _("loaded"),
        "first prefill": _("first prefill"),
        "mid-decode": _("mid-decode"),
        "peak": _("peak"),
        "fits": _("fits"),
        "weights do not fit": _("weights do not fit"),
        "no room for one sequence": _("no room for one sequence"),
        "this load does not fit": _("this load does not fit"),
        "embedding": _("embedding"),
        "head": _("head"),
        "norms": _("norms"),
        "attention": _("attention"),
        "mlp": _("feed-forward"),
        "router": _("router"),
        "experts": _("experts"),
        "shared expert": _("shared expert"),
        "state space": _("state space"),
        "linear attention": _("linear attention"),
        "vision tower": _("vision tower"),
        "projector": _("projector"),
        "MTP layer": _("MTP layer (stored, not served)"),
        "compute": _("compute-bound"),
        "memory bandwidth": _("memory-bandwidth-bound"),
        "KV tokens": _("KV tokens"),
        "all": _("all"),
        "without a named reason": _("without a named reason"),
        "weights + 10 %": _("weights + 10 %"),
        "constant overhead": _("constant overhead"),
        "leave one source out": _("Leave one source out: coefficients refitted without the source that is predicted"),
        "test split": _("Test split: coefficients as shipped, on records kept apart"),
        "load": _("load"),
        "kv": _("KV cache"),
        "exact": _("exact"),
        "measured": _("measured"),
        "predicted": _("predicted"),
        "assumed": _("assumed"),
        "cited": _("cited"),
    }.get(code, code)
