"""Matrix products and memory kernels of torch, the same code on the host's processor, CUDA, ROCm, MPS and XPU."""

from __future__ import annotations

from typing import Any

from narrows.measure.timing import Action

_FORMATS = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}


def import_torch() -> Any:
    """The torch module, or None where it is not installed or cannot be loaded."""
    try:
        import torch
    except (ImportError, OSError):
        return None
    return torch


def accelerators(torch: Any) -> list[str]:
    """Devices beside the processor that torch can use here: `cuda:0`, `mps`, `xpu:0`, …"""
    found = []
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            found += [f"{kind}:{index}" for index in range(module.device_count())]
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        found.append("mps")
    return found


class Torch:
    """torch on one device (`cpu`, `cuda:0`, `mps`, …)."""

    def __init__(self, device: str) -> None:
        self.torch: Any = import_torch()
        self.device = device
        self.kind = device.partition(":")[0]
        self.name = f"torch {self.torch.__version__.partition('+')[0]}"
        self.inference = self.torch.inference_mode
        self.precisions = self._precisions()

    def _precisions(self) -> tuple[str, ...]:
        torch = self.torch
        if self.kind != "cuda":
            return ("fp32", "bf16", "fp16") if self.kind == "mps" else ("fp32", "bf16", "fp16", "int8")
        major, minor = torch.cuda.get_device_capability(self.device)
        found = ["fp32", "fp16"]
        amd = getattr(torch.version, "hip", None) is not None
        if amd or major >= 8:
            found += ["bf16", *([] if amd else ["tf32", "int8"])]
        if amd or (major, minor) >= (8, 9):
            found.append("fp8")
        return tuple(found)

    def close(self) -> None:
        """Give cached memory of the device back."""
        module = getattr(self.torch, self.kind, None)
        if module is not None and hasattr(module, "empty_cache"):
            module.empty_cache()

    def settle(self) -> None:
        """Wait for what was started on the device."""
        module: Any = getattr(self.torch, self.kind, None)
        if self.kind in ("cuda", "xpu"):
            module.synchronize(self.device)
        elif self.kind != "cpu":
            module.synchronize()

    def linear(self, m: int, k: int, n: int, precision: str, copies: int = 1) -> Action:
        """[m, k] × [n, k]ᵀ as layers multiply; the next of `copies` weights each time, so that none stays cached.

        Raises RuntimeError (torch's own) for a product that the device or the library cannot do.
        """
        torch = self.torch
        if precision in ("fp8", "int8"):
            return self._narrow(m, k, n, precision)
        kind = getattr(torch, _FORMATS[precision])
        x, first = self._random(m, k).to(kind), self._random(n, k).to(kind)
        weights = [first, *(first.clone() for _ in range(copies - 1))]
        turn, product = [0], torch.nn.functional.linear

        def run() -> None:
            turn[0] = (turn[0] + 1) % copies
            product(x, weights[turn[0]])

        if self.kind == "cuda":
            return self._allowing(precision == "tf32", run)
        return run

    def _allowing(self, tf32: bool, run: Action) -> Action:
        """fp32 means fp32: tensor cores round it to 19 bits only where tf32 is asked for."""
        settings = self.torch.backends.cuda.matmul

        def allowed() -> None:
            settings.allow_tf32 = tf32
            run()

        return allowed

    def _narrow(self, m: int, k: int, n: int, precision: str) -> Action:
        torch = self.torch
        if precision == "int8":
            a = torch.randint(-8, 8, (m, k), dtype=torch.int8, device=self.device)
            b = torch.randint(-8, 8, (n, k), dtype=torch.int8, device=self.device).t()
            return lambda: torch._int_mm(a, b)
        amd = getattr(torch.version, "hip", None) is not None
        old = amd and "gfx94" in torch.cuda.get_device_properties(self.device).gcnArchName
        kind = torch.float8_e4m3fnuz if old else torch.float8_e4m3fn
        x, w = self._random(m, k).to(kind), self._random(n, k).to(kind).t()
        one = torch.ones((), device=self.device)
        return lambda: torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    def _random(self, rows: int, columns: int) -> Any:
        """Values around 0; the same 4,096 over and over, since drawing them can take longer than multiplying."""
        torch = self.torch
        values = torch.randn(4096, generator=torch.Generator().manual_seed(0)).to(self.device)
        return values.repeat(-(-rows * columns // 4096))[: rows * columns].view(rows, columns)

    def reading(self, size: int) -> dict[str, Action]:
        """Kernels that read `size` bytes: a sum, a maximum, a product of a matrix and a vector."""
        torch = self.torch
        x = torch.ones(size // 4, device=self.device)
        columns = 1024
        rows = max(1, x.numel() // columns)
        matrix, vector = x[: rows * columns].view(rows, columns), torch.ones(columns, device=self.device)
        out = torch.empty(rows, device=self.device)
        found: dict[str, Action] = {"gemv": lambda: torch.mv(matrix, vector, out=out), "sum": lambda: x.sum()}
        if self.kind != "cpu":  # not vectorised there
            found["max"] = lambda: x.amax()
        return found

    def passes(self, size: int) -> int:
        """How often one action of `reading` reads its bytes."""
        return 1

    def copying(self, size: int, threads: int | None = None) -> Action:
        """Copies `size` ÷ 2 bytes to as many on the device."""
        torch = self.torch
        x = torch.ones(size // 8, device=self.device)
        y = torch.zeros(size // 8, device=self.device)
        return lambda: y.copy_(x)

    def adding(self, size: int) -> Action:
        """a = b + s·c over three arrays of `size` ÷ 3 bytes: STREAM's triad."""
        torch = self.torch
        a, b, c = (torch.ones(size // 12, device=self.device) for _ in range(3))
        return lambda: torch.add(b, c, alpha=3.0, out=a)

    def dispatch(self) -> Action:
        """The smallest operation."""
        torch = self.torch
        x, y = torch.ones(1, device=self.device), torch.zeros(1, device=self.device)
        return lambda: torch.add(x, x, out=y)

    def transfer(self, size: int, pinned: bool, to_device: bool) -> Action:
        """A copy of `size` bytes between the host (pinned or pageable memory) and the device."""
        torch = self.torch
        host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
        there = torch.ones(size, dtype=torch.uint8, device=self.device)
        if to_device:
            return lambda: there.copy_(host, non_blocking=pinned)
        return lambda: host.copy_(there, non_blocking=pinned)

    def touching(self, buffer: Any) -> Action:
        """Writes one byte of each 4-KiB page of a buffer."""
        view = self.torch.frombuffer(buffer, dtype=self.torch.uint8)[::4096]
        return lambda: view.fill_(1)

    def free_memory(self) -> tuple[int, int]:
        """(bytes in all, bytes free) of a device that is not the processor."""
        torch = self.torch
        module: Any = getattr(torch, self.kind, None)
        if hasattr(module, "mem_get_info"):
            free, total = module.mem_get_info(self.device)
            return int(total), int(free)
        if self.kind == "mps":
            total = int(torch.mps.recommended_max_memory())
            return total, total - int(torch.mps.driver_allocated_memory())
        return 0, 0
