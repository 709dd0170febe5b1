"""Describes this machine and measures its power draw."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
GPU_QUERY = "name,driver_version,memory.total"
GPU_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")
SAMPLE_MS = 200
PATIENCE = 10  # seconds for nvidia-smi


def hardware() -> dict[str, Any]:
    """Return the processor, memory and GPUs of this machine. Values that cannot be read are None."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "memory_bytes": _memory(), "gpus": _gpus()}


def system() -> str:
    """Return the operating system, its release and the architecture."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def _cpu() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        return next(named, platform.processor() or platform.machine())
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _gpus() -> list[dict[str, Any]]:
    rows = []
    for line in (_smi(f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits") or "").splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 3:
            memory = int(parts[2]) if parts[2].isdigit() else None
            rows.append({"name": parts[0], "driver": parts[1], "memory_mib": memory})
    return rows


def _smi(*options: str) -> str | None:
    try:
        done = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@dataclass
class Meter:
    """Measures the mean power between `begin` and `end`: of the GPU, or of the CPU packages (RAPL)."""

    provider: str
    folder: Path = POWERCAP
    _before: dict[Path, int] = field(default_factory=dict)
    _watching: subprocess.Popen[str] | None = None
    _reason: str = ""

    def begin(self) -> None:
        """Start the measurement."""
        self._before, self._watching, self._reason = {}, None, ""
        if self.provider in GPU_PROVIDERS:
            command = [
                "nvidia-smi",
                "-i",
                "0",
                "--query-gpu=power.draw",
                "--format=csv,noheader,nounits",
                f"-lms={SAMPLE_MS}",
            ]
            try:
                self._watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            except OSError as error:
                self._reason = f"nvidia-smi cannot be run: {error.strerror}"
            return
        try:
            self._before = {zone: _number(zone / "energy_uj") for zone in self._packages()}
        except (OSError, ValueError) as error:
            self._before, self._reason = {}, f"RAPL cannot be read: {getattr(error, 'strerror', None) or error}"

    def end(self, wall_ns: int) -> tuple[dict[str, Any] | None, str]:
        """End the measurement. Return the power source with the mean power in milliwatts, and an empty reason.

        If the power is unknown, return None and the reason.
        """
        if self._watching is not None:
            return self._of_gpu(self._watching)
        if not self._before:
            return None, self._reason or f"{self.folder} has no processor package to read (RAPL)"
        try:
            used = sum(self._used(zone, before) for zone, before in self._before.items())
        except (OSError, ValueError) as error:
            return None, f"RAPL cannot be read: {getattr(error, 'strerror', None) or error}"
        return {"source": "rapl", "milliwatts": used * 10**6 // wall_ns}, ""  # uJ / ns = kW

    def _packages(self) -> list[Path]:
        zones = sorted(self.folder.glob("intel-rapl:*"))
        return [zone for zone in zones if zone.name.count(":") == 1]

    @staticmethod
    def _used(zone: Path, before: int) -> int:
        now = _number(zone / "energy_uj")
        return now - before if now >= before else now + _number(zone / "max_energy_range_uj") - before

    @staticmethod
    def _of_gpu(watching: subprocess.Popen[str]) -> tuple[dict[str, Any] | None, str]:
        watching.terminate()
        try:
            text, _ = watching.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            watching.kill()
            watching.communicate()
            return None, "nvidia-smi did not end"
        readings = []
        for line in text.splitlines():
            with suppress(ValueError):
                readings.append(round(float(line) * 1000))  # a reading, not money
        if not readings:
            return None, "nvidia-smi told no power"
        return {"source": "nvidia-smi", "milliwatts": sum(readings) // len(readings)}, ""


def _number(path: Path) -> int:
    return int(path.read_text())
