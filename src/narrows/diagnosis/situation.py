"""One failed (or healthy) start with all that is known of it: the log's figures, the law's, and what a change does."""

from __future__ import annotations

from typing import Any, Final

from narrows.deployment import Deployment, deploy, whole_blocks
from narrows.diagnosis.command import Changes, Command, command_of, quoted, written
from narrows.diagnosis.deployed import CONTEXT, Deployed, on_cpu
from narrows.diagnosis.mends import Basis, Mend
from narrows.diagnosis.predicted import Predicted, predict
from narrows.observe import Observation
from narrows.text import BadInput, Text
from narrows.units import GIB

__all__ = ["CONTEXT", "HIGHEST_SHARE", "SHORTEST", "Situation", "share_down", "share_text", "share_up"]

HIGHEST_SHARE: Final = 0.95
"""No share above this is offered: what runs beside the budget needs the rest."""
SHORTEST: Final = 256
"""A length below this serves nobody."""


class Situation:
    """The figures that the rules speak of. Sizes are bytes per device."""

    def __init__(self, seen: Observation, made: Deployed, earlier: tuple[Observation, ...] = ()) -> None:
        self.seen = seen
        self.made = made
        self.earlier = earlier
        self.terms, self.settings = seen.terms, seen.settings
        self.engine = made.engine
        self.command: Command = command_of(seen, made.engine)
        self.pool = seen.settings.kv_cache_memory_bytes
        self.law = self._predict(made.deployment, 0) if made.deployment else None
        """The start as it was, by prediction alone."""
        self.shift = self._shift()
        self.base = self._predict(made.deployment, self.shift) if made.deployment else None
        """The same, moved to what this machine reported."""

    def _shift(self) -> int:
        reported = self.reported_pool
        return 0 if reported is None or self.law is None else reported - int(self.law.kv.value)

    @property
    def reported_pool(self) -> int | None:
        """Bytes per device that the log says, or its blocks or tokens imply, were there for KV cache.

        None where it does not tell, or where the pool was set by hand: that shows nothing of the machine.
        """
        if self.law is None or self.pool:
            return None
        reported = self.terms.kv_cache
        pages = self.law.pages
        if reported is None and self.seen.gpu_blocks:
            reported = self.seen.gpu_blocks * pages.block_bytes
        elif reported is None and self.seen.kv_tokens and pages.group_count == 1:
            reported = self.seen.kv_tokens // pages.block * pages.block_bytes
        return reported

    def _predict(self, deployment: Deployment, shift: int) -> Predicted:
        return predict(deployment, shift=shift, block=self._block())

    def _block(self) -> int | None:
        block = self.settings.block_size
        if block is None or self.made.model is None or any(True for _ in self.made.model.state_rows()):
            return None
        return block if block <= 4096 else None

    # --- figures -----------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int | None:
        """Usable bytes of the device."""
        said = self.terms.total or (self.seen.oom.total if self.seen.oom else None)
        if said is None and self.made.deployment is not None:
            return self.made.deployment.usable
        if said is None and self.terms.requested and self.settings.gpu_memory_utilization:
            return round(self.terms.requested / self.settings.gpu_memory_utilization)
        return said

    @property
    def share(self) -> float | None:
        """The engine's share of the memory: as set, else the version's default."""
        if self.settings.gpu_memory_utilization is not None:
            return self.settings.gpu_memory_utilization
        return self.engine.gpu_memory_utilization if self.engine else None

    @property
    def budget(self) -> int | None:
        """Bytes that the engine may claim."""
        if self.terms.requested is not None:
            return self.terms.requested
        return int(self.total * self.share) if self.total is not None and self.share is not None else None

    @property
    def length(self) -> int | None:
        """Tokens of the longest request."""
        if self.settings.max_model_len is not None:
            return self.settings.max_model_len
        return self.made.deployment.max_length if self.made.deployment else None

    @property
    def weights(self) -> int | None:
        """Weights as reported, else as predicted."""
        return self.terms.weights or (self.law.start.weights if self.law else None)

    @property
    def sequences(self) -> int | None:
        """Sequences at once: as set, else the default."""
        if self.settings.max_num_seqs is not None:
            return self.settings.max_num_seqs
        return self.made.deployment.max_num_seqs if self.made.deployment else None

    @property
    def batched_tokens(self) -> int | None:
        """Tokens of one step: as set, else the default."""
        if self.settings.max_num_batched_tokens is not None:
            return self.settings.max_num_batched_tokens
        return self.made.deployment.max_num_batched_tokens if self.made.deployment else None

    @property
    def token_bytes(self) -> float | None:
        """Bytes of KV cache per token, by the log alone."""
        if self.terms.kv_cache and self.seen.kv_tokens:
            return self.terms.kv_cache / self.seen.kv_tokens
        if self.seen.needed_bytes and self.settings.max_model_len and self.seen.needed_bytes > GIB // 4:
            return self.seen.needed_bytes / self.settings.max_model_len
        return None

    @property
    def kv_tokens(self) -> int | None:
        """Tokens that the pool holds: as the log states or implies them, else as predicted."""
        if self.seen.kv_tokens is not None:
            return self.seen.kv_tokens
        if self.seen.estimated_max_len is not None:
            return self.seen.estimated_max_len
        return self.base.tokens if self.base and self.base.kv.value > 0 else None

    @property
    def others(self) -> int | None:
        """Bytes that other processes hold, where the log shows it."""
        oom = self.seen.oom
        if oom is not None and oom.other_processes is not None:
            return oom.other_processes
        if self.terms.total is not None and self.terms.free_at_start is not None:
            held = self.terms.total - self.terms.free_at_start
            return held if held > CONTEXT else 0
        return None

    @property
    def counts_others(self) -> bool:
        """Whether what others hold comes out of the engine's share in this version."""
        return self.engine is None or self.engine.others_in_budget

    @property
    def deficit(self) -> int:
        """Bytes by which the allocation that failed exceeded what was free."""
        oom = self.seen.oom
        return max(0, (oom.tried or 0) - (oom.free or 0)) if oom else 0

    @property
    def old(self) -> bool:
        """Whether the version is of the V0 engine, whose share counts all that is in use."""
        return self.engine is not None and self.engine.whole_prompts

    @property
    def on_cpu(self) -> bool:
        """Whether the engine ran on the host's processor."""
        return on_cpu(self.seen)

    @property
    def unified(self) -> bool:
        """Whether the device's memory is the host's."""
        return self.on_cpu or (self.made.accelerator is not None and self.made.accelerator.unified)

    def of_all_replicas(self, tensor_parallel: int) -> int:
        """Ranks that share the experts, with so many in each replica of attention."""
        return tensor_parallel * (self.settings.data_parallel or 1)

    # --- changes -----------------------------------------------------------------------------------------------------

    def tried(self, **options: Any) -> Predicted | None:
        """The start with other arguments of `deploy`; None where nothing can be predicted or it cannot run."""
        if self.made.deployment is None:
            return None
        if self.made.options.get("expert_parallel", 1) > 1 and "tensor_parallel" in options:
            options["expert_parallel"] = self.of_all_replicas(options["tensor_parallel"])
        try:
            one = whole_blocks(
                deploy(self.made.deployment.model, self.made.deployment.accelerator, **self.made.options | options)
            )
        except BadInput:
            return None
        return self._predict(one, self.shift)

    def mend(self, flags: Changes, text: Text, *, tokens: int | None = None, kv: int | None = None) -> Mend:
        """A mend by the log's figures: tokens and bytes of KV cache that it leads to, if known."""
        return self._mend(flags, text, tokens, kv, "log" if tokens is not None else "none")

    def mend_by(self, flags: Changes, text: Text, outcome: Predicted | None) -> Mend | None:
        """A mend that the prediction must confirm; None where it does not."""
        if outcome is None or not outcome.starts:
            return None
        return self._mend(flags, text, outcome.tokens, int(outcome.kv.value), "prediction")

    def either(
        self,
        flags: Changes,
        text: Text,
        *,
        tokens: int | None = None,
        kv: int | None = None,
        **options: Any,
    ) -> Mend | None:
        """Confirmed by prediction where there is a deployment, else by the log's arithmetic, or by nothing."""
        if self.made.deployment is not None:
            return self.mend_by(flags, text, self.tried(**options))
        return self.mend(flags, text, tokens=tokens, kv=kv)

    def _mend(self, flags: Changes, text: Text, tokens: int | None, kv: int | None, basis: Basis) -> Mend:
        given = {flag: value for flag, value in flags.items() if value is not None}
        change = " ".join(written(flag, quoted(value) if value else "") for flag, value in given.items())
        return Mend(self.command.changed(flags), change, tokens, kv, text, basis)


def share_text(share: float) -> str:
    """A share as the flag takes it: 0.9, 0.85."""
    return f"{share:.2f}".rstrip("0").rstrip(".")


def share_down(share: float) -> float:
    """Rounded down to a hundredth."""
    return int(share * 100 + 1e-6) / 100


def share_up(share: float) -> float:
    """Rounded up to a hundredth."""
    return -(-int(share * 10000 + 0.5) // 100) / 100
