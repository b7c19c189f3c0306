"""Causes in the logs of SGLang and llama.cpp, by the log's own figures."""

from __future__ import annotations

import shlex

from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import Situation, share_text, share_up
from narrows.text import Text
from narrows.units import binary, gib


def static_share(s: Situation) -> Found | None:
    """SGLang: weights and KV pool must both fit mem_fraction_static, so weights above it need a higher fraction."""
    error = s.seen.error or ""
    if s.seen.engine != "sglang" or "mem-fraction-static" not in error:
        return None
    free, weights, fraction = s.terms.free_at_start, s.terms.weights, s.settings.mem_fraction_static
    mends: list[Mend | None] = []
    least = weights / free if free and weights else None
    if least is not None and least < 0.95:
        mends.append(_sglang(s, min(0.95, max(share_up(least + 0.05), (fraction or 0) + 0.01))))
    elif least is None:
        mends.append(_sglang(s, min(0.95, round((fraction or 0.85) + 0.05, 2))))
    mends.append(_plain(Text("if activations then fail: a smaller --chunked-prefill-size or --cuda-graph-max-bs")))
    text = (
        Text(
            "weights of {weights} leave nothing for KV cache in the static fraction {fraction} of {free}: the fraction "
            "holds weights and KV cache, so it must be higher, not lower",
            weights=gib(weights or 0),
            fraction=f"{fraction:g}",
            free=gib(free or 0),
        )
        if weights and free and fraction
        else Text(
            "weights leave nothing for KV cache in --mem-fraction-static: the fraction holds weights and KV cache, so "
            "it must be higher, not lower"
        )
    )
    return Found("static-fraction-too-low", text, mends)


def _sglang(s: Situation, fraction: float) -> Mend:
    words = ["python", "-m", "sglang.launch_server", "--model-path", s.seen.model or "MODEL"]
    if (s.settings.tensor_parallel or 1) > 1:
        words += ["--tp", str(s.settings.tensor_parallel)]
    change = ["--mem-fraction-static", share_text(fraction)]
    kv = None
    if s.terms.free_at_start and s.terms.weights:
        kv = max(0, int(fraction * s.terms.free_at_start) - s.terms.weights)
    text = Text("a larger static fraction: what is above the weights becomes KV cache")
    return Mend(shlex.join(words + change), " ".join(change), None, kv, text, "log" if kv else "none")


def compute_buffer(s: Situation) -> Found | None:
    """llama.cpp: weights and KV stand, the buffer of a step does not."""
    if s.seen.engine != "llama.cpp" or s.seen.stage != "profiling":
        return None
    oom = s.seen.oom
    text = (
        Text(
            "weights and KV cache fit, the compute buffer does not: {tried} on device {device}; it grows with "
            "micro-batch × vocabulary or context, and pipeline copies multiply it",
            tried=binary(oom.tried),
            device=oom.device or "?",
        )
        if oom is not None and oom.tried is not None
        else Text(
            "weights and KV cache fit, the compute buffer does not; it grows with micro-batch × vocabulary or context, "
            "and pipeline copies multiply it"
        )
    )
    micro = s.settings.micro_batch or 512
    fewer = _llama(s, ["-ub", str(max(32, micro // 4))], Text("a smaller micro-batch: slower prefill"))
    flash = _llama(s, ["-fa", "on"], Text("flash attention: no scores of the whole context are kept"))
    eight = _llama(s, ["-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"], Text("KV cache in 8 bits leaves more room"))
    return Found("compute-buffer", text, [fewer, flash, eight])


def cache_buffer(s: Situation) -> Found | None:
    """llama.cpp: the KV cache itself does not fit."""
    if s.seen.engine != "llama.cpp" or s.seen.stage != "kv allocation":
        return None
    tried = s.seen.oom.tried if s.seen.oom else None
    length = s.settings.max_model_len
    text = (
        Text("the KV cache of {size} does not fit the device", size=binary(tried))
        if tried is not None
        else Text("the KV cache does not fit the device")
    )
    shorter = _llama(s, ["-c", str(max(512, (length or 8192) // 2))], Text("half of the context"))
    eight = _llama(s, ["-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"], Text("KV cache in 8 bits"))
    return Found("kv-buffer", text, [shorter, eight])


def weights_buffer(s: Situation) -> Found | None:
    """llama.cpp: weights do not fit."""
    if s.seen.engine != "llama.cpp" or s.seen.stage != "load":
        return None
    tried = s.seen.oom.tried if s.seen.oom else None
    if tried is None:
        return None
    text = Text("weights of {size} do not fit the device", size=binary(tried))
    return Found("weights-exceed-device", text, [_llama(s, ["-ngl", "16"], Text("fewer layers on the device: slower"))])


def _llama(s: Situation, change: list[str], text: Text) -> Mend:
    words = ["llama-server", "-m", s.seen.model or "MODEL"]
    if s.settings.max_model_len and "-c" not in change:
        words += ["-c", str(s.settings.max_model_len * (s.settings.max_num_seqs or 1))]
    return Mend(shlex.join(words + change), " ".join(change), None, None, text, "none")


def _plain(text: Text) -> Mend:
    return Mend("", "", None, None, text, "none")
