"""Causes where the KV cache stands, and is smaller than one request of the longest length."""

from __future__ import annotations

from typing import Any

from narrows.calibration import coefficients
from narrows.deployment import MOST_LENGTH
from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import Situation
from narrows.memory.activations import peak
from narrows.observe import Observation
from narrows.text import Text
from narrows.units import binary, gib


def is_too_long(s: Situation) -> bool:
    """Whether the log says that one request does not fit the cache."""
    seen = s.seen
    if seen.stage != "kv allocation" or s.length is None:
        return False
    return seen.needed_bytes is not None or (seen.kv_tokens is not None and seen.kv_tokens < s.length)


def too_long(s: Situation) -> Found | None:
    """One request of the longest length needs more than the pool."""
    if not is_too_long(s):
        return None
    return Found("longest-request-does-not-fit", _sentence(s), roomier(s))


def roomier(s: Situation) -> list[Mend | None]:
    """What helps a pool that is too small, the least costly first."""
    return [
        room.shorter(s),
        room.larger_pool(s),
        room.higher_share(s),
        room.eager(s),
        room.fewer_tokens(s) if s.base is not None else None,
        room.eight_bits(s),
        room.fp8_weights(s),
        room.more_ranks(s),
    ]


def _sentence(s: Situation) -> Text:
    seen, length = s.seen, s.length or 0
    if seen.needed_bytes is not None and s.terms.kv_cache is not None:
        figures = {
            "length": length,
            "needed": gib(seen.needed_bytes),
            "pool": binary(s.terms.kv_cache),
            "where": _where(s),
        }
        longest = room.stated_length(s) or room.predicted_length(s, length)
        if not longest:
            return Text(
                "one request of {length} tokens needs {needed} of KV cache, and {pool} is there ({where})", **figures
            )
        return Text(
            "one request of {length} tokens needs {needed} of KV cache, and {pool} is there ({where}), enough for "
            "{longest} tokens",
            longest=longest,
            **figures,
        )
    return Text(
        "one request of {length} tokens does not fit the KV cache, which holds {tokens} tokens ({where})",
        length=length,
        tokens=seen.kv_tokens or 0,
        where=_where(s),
    )


def _where(s: Situation) -> Text:
    """Where the pool's size comes from."""
    if s.pool:
        return Text("as --kv-cache-memory-bytes sets it")
    if s.budget is not None and s.weights is not None and s.share is not None:
        return Text(
            "what weights of {weights} and the engine's reserve leave of {budget}, {share} of the device",
            weights=gib(s.weights),
            budget=gib(s.budget),
            share=f"{s.share:g}",
        )
    return Text("what weights and the engine's reserve leave of its share of the device")


def profile_follows_length(s: Situation) -> Found | None:
    """Without chunked prefill the profiled batch is as long as the longest request, so more length "
    "leaves less cache."""
    engine, length = s.engine, s.length
    if engine is None or length is None or not engine.whole_prompts or s.settings.enable_chunked_prefill:
        return None
    above, chunk = engine.chunk_above
    if length > above or s.settings.max_num_batched_tokens is not None or not is_too_long(s):
        return None
    cut = s.tried(max_num_batched_tokens=chunk)
    if s.base is None or cut is None or not cut.starts:
        return None
    known = coefficients(engine.name)
    more = peak(s.base.deployment, known).largest - peak(cut.deployment, known).largest
    if more <= 0:
        return None
    flags = {"--enable-chunked-prefill": "", "--max-num-batched-tokens": str(chunk)}
    figures = {"length": length, "more": binary(more), "chunk": chunk, "tokens": s.kv_tokens or 0}
    text = Text(
        "without chunked prefill the engine profiles a step of {length} tokens, whose activations take {more} more "
        "than one of {chunk}: the KV cache is left with {tokens} tokens (above {above} tokens the engine cuts "
        "prompts by itself, so longer lengths start again)",
        above=above,
        **figures,
    )
    if above >= MOST_LENGTH:
        text = Text(
            "without chunked prefill the engine profiles a step of {length} tokens, whose activations take {more} more "
            "than one of {chunk}: the KV cache is left with {tokens} tokens",
            **figures,
        )
    return Found(
        "profile-grows-with-length",
        text,
        [s.mend_by(flags, Text("prompts cut into steps of {chunk} tokens", chunk=chunk), cut), *roomier(s)],
    )


def upgraded(s: Situation) -> Found | None:
    """The same model started with another version in the same log: what changed is the version's defaults."""
    if s.seen.stage == "arguments" or (s.seen.oom is None and s.seen.stage != "kv allocation"):
        return None
    before = next((one for one in reversed(s.earlier) if _same(one, s.seen)), None)
    if before is None or before.version is None or s.engine is None:
        return None
    flags: dict[str, str | None] = {}
    options: dict[str, Any] = {}
    for flag, name in (
        ("--max-num-batched-tokens", "max_num_batched_tokens"),
        ("--max-num-seqs", "max_num_seqs"),
        ("--gpu-memory-utilization", "gpu_memory_utilization"),
    ):
        old, new = default_of(s, before, name), default_of(s, s.seen, name)
        if old is not None and old != new and getattr(s.settings, name) is None:
            flags[flag] = f"{old:g}" if isinstance(old, float) else str(old)
            options["utilization" if name == "gpu_memory_utilization" else name] = old
    pinned = s.either(flags, Text("the old version's values"), **options) if flags else None
    if s.seen.oom is not None and s.base is not None:
        return Found("upgrade-changed-the-profile", _upgrade_text(s, before, flags), _relieving(s, pinned, options))
    text = _upgrade_text(s, before, flags)
    return Found("upgrade-changed-the-profile", text, [pinned, *roomier(s), room.fewer_sequences(s)])


def _upgrade_text(s: Situation, before: Observation, flags: dict[str, str | None]) -> Text:
    new = s.seen.version or (s.engine.version if s.engine else "")
    changed = ", ".join(f"{flag} {value}" for flag, value in flags.items())
    if changed:
        return Text(
            "the same model started with vLLM {old}; {new} fails because defaults changed, which were: {changed}",
            old=before.version,
            new=new,
            changed=changed,
        )
    return Text(
        "the same model started with vLLM {old}; {new} counts more against its share of the device (graphs, "
        "profiling, other processes)",
        old=before.version,
        new=new,
    )


def _relieving(s: Situation, pinned: Mend | None, options: dict[str, Any]) -> list[Mend | None]:
    """What lowers the activation peak by what was short: the old values, one change, or two together."""
    holds = room.relieves(s)
    old = s.tried(**options) if pinned is not None else None
    single = [
        pinned if old is not None and holds(old) else None,
        room.fewer_tokens(s, holds),
        room.fewer_sequences(s, holds),
        room.more_ranks(s, holds),
    ]
    return single if any(single[:3]) else [room.fewer_tokens_and_shorter(s, holds), *single]


def _same(before: Observation, now: Observation) -> bool:
    ran = before.outcome in ("started", "serving") and before.engine == now.engine
    return ran and before.version != now.version and before.model == now.model


def default_of(s: Situation, seen: Observation, name: str) -> float | int | None:
    """A setting as a start had it: as the log says, else the default of its version on this device."""
    from narrows.engines import find_engine
    from narrows.text import BadInput

    said: float | int | None = getattr(seen.settings, name)
    if said is not None:
        return said
    try:
        facts = find_engine(f"vllm=={seen.version}")
    except BadInput:
        return None
    if name == "gpu_memory_utilization":
        return facts.gpu_memory_utilization
    if s.total is None:
        return None
    device = s.made.accelerator.name if s.made.accelerator else s.seen.gpu or ""
    default = facts.scheduler_default(s.total, device)
    if name == "max_num_seqs":
        return default.max_num_seqs
    return facts.step_tokens(s.length or default.max_num_batched_tokens, default)
