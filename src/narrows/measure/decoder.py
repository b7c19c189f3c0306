"""A real decoder of transformers on this machine: prefill and decode, one forward pass at a time."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from narrows.measure.limits import memory
from narrows.measure.recorder import Call, recorded
from narrows.measure.timing import Sample, of
from narrows.measure.torch_library import Torch, import_torch
from narrows.text import BadInput
from narrows.units import gib

_FORMATS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
MOST_SECONDS = 30.0


def _experts(parameter: Any) -> bool:
    """Whether it holds the matrices of all experts of a layer; a convolution by channels has a 1 in its middle."""
    return bool(parameter.dim() == 3 and parameter.shape[1] > 1)


class Point(msgspec.Struct, frozen=True):
    """One forward pass: `prefill` of `batch` prompts of `length` tokens, or `decode` of one more token each of `batch`
    sequences of `length` cached tokens.
    """

    phase: str
    batch: int
    length: int


class Run(msgspec.Struct, frozen=True):
    """A point that was run: its operators as they were issued, and its time."""

    calls: Counter[Call]
    time: Sample


class Runs(Protocol):
    """A decoder that can be run: see `Decoder`."""

    name: str
    random: bool
    library: Any

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a step reads."""

    @property
    def parameters(self) -> int:
        """How many it has."""

    @property
    def applied(self) -> int:
        """How many a token is multiplied by."""

    def run(self, point: Point) -> Run:
        """Run a point."""


def settings_of(source: str) -> tuple[dict[str, Any], bool]:
    """The config of a folder or a config.json, and whether weights lie beside it. Raises BadInput."""
    folder = source if os.path.isdir(source) else os.path.dirname(source)
    path = os.path.join(source, "config.json") if os.path.isdir(source) else source
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(4 * 2**20))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)[:120]
        raise BadInput("'{path}' cannot be read as a model's config: {reason}", path=path, reason=reason) from None
    if not isinstance(found, dict) or "model_type" not in found:
        raise BadInput("'{path}' is no model's config: it names no model_type", path=path)
    stored = os.path.isdir(source) and any(name.endswith(".safetensors") for name in os.listdir(folder))
    return found, stored


class Decoder:
    """A decoder on a device at one precision; random weights where none lie beside the config."""

    def __init__(self, source: str, precision: str, device: str, weights: bool | None = None) -> None:
        torch = import_torch()
        try:
            import transformers
        except ImportError:
            transformers = None
        if torch is None or transformers is None:
            raise BadInput("a decoder is run by torch and transformers: pip install torch transformers")
        transformers.logging.set_verbosity_error()  # which kernels it lacks stands in the way of the bar
        settings, stored = settings_of(source)
        self.torch, self.precision, self.device = torch, precision, device
        self.library = Torch(device)
        self.name = f"transformers {transformers.__version__}"
        self.random = not (stored if weights is None else weights)
        self.model = self._built(transformers, settings, source)
        self.vocabulary = int(self.model.config.get_text_config().vocab_size)

    def _built(self, transformers: Any, settings: dict[str, Any], source: str) -> Any:
        kind = getattr(self.torch, _FORMATS[self.precision])
        auto = transformers.AutoModelForCausalLM
        try:
            if not self.random:
                return auto.from_pretrained(source, dtype=kind, local_files_only=True).to(self.device).eval()
            known = dict(settings)
            config = transformers.AutoConfig.for_model(known.pop("model_type"), **known)
            with self.torch.device("meta"):
                model = auto.from_config(config, dtype=kind)
            self._fits(model)
            model = model.to_empty(device=self.device).eval()
            model.tie_weights()
            self._filled(model)
            return model
        except (ValueError, KeyError, TypeError, OSError, RuntimeError, ImportError, AttributeError) as error:
            raise BadInput(
                "transformers cannot build this decoder: {reason}", reason=" ".join(str(error).split())[:200]
            ) from None

    def _fits(self, model: Any) -> None:
        """Refuse a model that memory does not hold, before the system has to."""
        needed = sum(one.numel() * one.element_size() for one in model.parameters())
        free = memory()[1] if self.device == "cpu" else self.library.free_memory()[1]
        if free and needed > 0.9 * free:
            raise BadInput(
                "the weights take {size} at {precision}, and {free} of memory are free",
                size=gib(needed),
                precision=self.precision,
                free=gib(free),
            )

    def _filled(self, model: Any) -> None:
        """Small random weights, the same ones over and over: drawing billions takes longer than running them.

        What a module computes for itself on construction (frequencies of the rotary embedding) is built anew.
        """
        torch = self.torch
        drawn = torch.randn(2**20, generator=torch.Generator().manual_seed(0)) * 0.02
        for one in model.parameters():
            flat = one.data.view(-1)
            pattern = drawn.to(one.dtype).to(self.device)
            for start in range(0, flat.numel(), pattern.numel()):
                part = flat[start : start + pattern.numel()]
                part.copy_(pattern[: part.numel()])
        for module in model.modules():
            own = dict(module.named_buffers(recurse=False))
            if any("inv_freq" in name for name in own):
                self._frequencies(module)
            else:
                for buffer in own.values():
                    buffer.zero_()

    def _frequencies(self, module: Any) -> None:
        """Any falling frequencies do: a rotation takes as long whatever its angle."""
        for buffer in module.buffers(recurse=False):
            if buffer.is_floating_point():
                values = self.torch.linspace(1.0, 1e-4, max(1, buffer.numel()))
                buffer.copy_(values.view(buffer.shape).to(buffer.dtype))

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters that every step multiplies by: all but an embedding that is not the head too, and
        but experts, whose bytes stand with the products that read them.
        """
        model = self.model
        total = sum(one.numel() * one.element_size() for one in model.parameters() if not _experts(one))
        table = model.get_input_embeddings().weight
        head = model.get_output_embeddings()
        tied = head is not None and head.weight.data_ptr() == table.data_ptr()
        return int(total if tied else total - table.numel() * table.element_size())

    @property
    def parameters(self) -> int:
        """How many there are; tied ones once."""
        return int(sum(one.numel() for one in self.model.parameters()))

    @property
    def applied(self) -> int:
        """How many parameters a token is multiplied by: of the experts, those that the router takes."""
        config = self.model.config.get_text_config()
        names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
        every = next((getattr(config, name) for name in names if getattr(config, name, None)), 1)
        taken = getattr(config, "num_experts_per_tok", None) or every
        experts = sum(one.numel() for one in self.model.parameters() if _experts(one))
        return int(self.parameters - experts + experts * min(1.0, taken / every))

    def _forward(self, ids: Any, cache: Any) -> Any:
        keyword = "cache" if "cache" in self._accepted() else "past_key_values"
        return self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{keyword: cache})

    def _accepted(self) -> set[str]:
        import inspect

        return set(inspect.signature(type(self.model).forward).parameters)

    def _ids(self, batch: int, length: int) -> Any:
        return (self.torch.arange(batch * length, device=self.device) % self.vocabulary).view(batch, length)

    def _cached(self, batch: int, length: int) -> Any:
        """A cache of `length` tokens, made by repeating one: what stands in it does not change the time. States of
        fixed size (Mamba, gated delta, convolutions) stay as one token leaves them. Raises BadInput for a model that
        takes no such cache.
        """
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        self._forward(self._ids(batch, 1), cache)
        layers = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
        # a state is as large after one token as after many, in the cache or in the module itself
        if not layers and not any(hasattr(layer, "recurrent_states") for layer in cache.layers):
            raise BadInput("this decoder keeps a cache of its own kind; only its prefill can be measured")
        for layer in layers:
            most = getattr(layer, "sliding_window", None)
            tokens = min(length, most - 1) if most else length
            layer.keys = layer.keys.repeat(1, 1, tokens, 1)
            layer.values = layer.values.repeat(1, 1, tokens, 1)
            if hasattr(layer, "cumulative_length"):
                layer.cumulative_length = length
        return cache

    def _pass(self, point: Point) -> Callable[[], object]:
        """A forward pass. A prefill begins with an empty cache each time; a decode goes on where the last one ended."""
        from transformers import DynamicCache

        if point.phase == "prefill":
            ids = self._ids(point.batch, point.length)
            return lambda: self._forward(ids, DynamicCache(config=self.model.config))
        one, cache = self._ids(point.batch, 1), self._cached(point.batch, point.length)
        return lambda: self._forward(one, cache)

    def run(self, point: Point, budget: float = 3.0, least: int = 3, most: int = 30) -> Run:
        """Run a point: once to record it, then repeats. Raises BadInput where memory does not suffice."""
        library = self.library
        clock = time.perf_counter
        try:
            with self.torch.inference_mode():
                step = self._pass(point)
                calls = recorded(self.torch, step)
                library.settle()
                times: list[float] = []
                while len(times) < most and (len(times) < least or sum(times) < budget):
                    begun = clock()
                    step()
                    library.settle()
                    times.append(clock() - begun)
                    if times[0] > MOST_SECONDS / 2:
                        break
            return Run(calls, of(times))
        except (MemoryError, RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            reason = " ".join(str(error).split())
            if not isinstance(error, MemoryError) and "memory" not in reason.lower():
                # a config whose sizes do not fit together is found out only when it is run
                raise BadInput("transformers cannot run this decoder: {reason}", reason=reason[:200]) from None
            raise BadInput(
                "{phase} of {batch} × {length} tokens does not fit into memory",
                phase=point.phase,
                batch=point.batch,
                length=point.length,
            ) from None
