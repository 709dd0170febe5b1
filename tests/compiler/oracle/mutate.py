"""What becomes of damaged programs.

Every damaged program that the independent checker calls illegal must be refused by the simulator, or give other results or
counters; and what is legal must count what it promises.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from compiler import targets
from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.resources import Counters
from compiler.reporting import resources_of
from compiler.simulator import simulate
from tests.compiler.oracle.damage import KINDS
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.programs import Feed, Sample
from tests.compiler.oracle.promise import broken_promises

DATA = ("outside a dimension", "an index names memory", "the program takes")  # refusals that are the feeds' fault
Right = tuple[list[Feed], Counters]


@dataclass
class Verdict:
    """``illegal``: what the independent checker says. ``fate``: malformed, refused, changed, recounted or survived.

    ``kept``: whether it counted what its own instructions promise.
    """

    program: str
    kind: str
    damage: str
    illegal: list[str]
    fate: str
    reason: str = ""
    kept: bool = True

    @property
    def escaped(self) -> bool:
        """Illegal, and yet it ran with the same results and counters."""
        return bool(self.illegal) and self.fate == "survived"

    @property
    def wronged(self) -> bool:
        """Legal, and yet refused for something that is not its data's fault, or counted other than promised."""
        fault = any(text in self.reason for text in DATA)
        return not self.illegal and (not self.kept or (self.fate == "refused" and not fault))


@dataclass
class Tally:
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def table(self) -> Counter[tuple[bool, str]]:
        return Counter((bool(v.illegal), v.fate) for v in self.verdicts)

    @property
    def survivors(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.fate == "survived"]


def judge(sample: Sample, right: Right, kind: str, damage: str, damaged: Binary) -> Verdict:
    """What the checker and the simulator make of one damaged program."""
    try:
        data = damaged.to_bytes()
        decoded = Binary.from_bytes(data)
    except (ModelError, OverflowError) as error:
        return Verdict(sample.name, kind, damage, [], "malformed", str(error))
    target = targets.load(decoded.target)
    illegal = Oracle(decoded, target).violations(inferences=len(sample.feeds))
    illegal += broken_promises(decoded, target) if not illegal else []
    try:
        outputs, counters = simulate(data, sample.feeds)
    except ModelError as error:
        return Verdict(sample.name, kind, damage, illegal, "refused", str(error))
    same = all(
        (got[name].shape, got[name].tobytes()) == (value.shape, value.tobytes())
        for got, wanted in zip(outputs, right[0], strict=True)
        for name, value in wanted.items()
    )
    kept = counters.within(resources_of(decoded, target))
    fate = "changed" if not same else "survived" if kept and counters == right[1] else "recounted"
    return Verdict(sample.name, kind, damage, illegal, fate, kept=kept)


def run(samples: list[Sample], count: int, seed: int = 0) -> Tally:
    """``count`` damaged programs, spread over the samples and the kinds of damage."""
    rng = np.random.default_rng(seed)
    right = [simulate(s.binary.to_bytes(), s.feeds) for s in samples]
    tally = Tally()
    while len(tally.verdicts) < count:
        n = len(tally.verdicts) % len(samples)
        kind = KINDS[int(rng.integers(len(KINDS)))]
        damage, damaged = kind(rng, samples[n].binary)
        if damaged != samples[n].binary:
            tally.verdicts.append(judge(samples[n], right[n], kind.__name__, damage, damaged))
    return tally
