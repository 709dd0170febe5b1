"""2,000 seeded mutations of valid programs, made by hand and by the compiler: `python -m benchmarks.mutations [COUNT] [SEED]`.

One field of an instruction, of a table or of the header is changed at a time, over models, processors and precisions. Every
program that an independent brute-force check then calls illegal must be refused, or change the results or the counters. Those
that survive are listed, each with the proof that it is legal: that check found nothing.
"""

from __future__ import annotations

import sys
from collections import Counter

from benchmarks.arguments import counts
from tests.compiler.oracle import compiled, mutate, wide
from tests.compiler.oracle.programs import samples


def main(arguments: list[str]) -> int:
    count, seed = counts("mutations", __doc__, arguments, count=2000, seed=0)
    programs = [*samples(), *compiled.samples(), *wide.samples()]
    tally = mutate.run(programs, count, seed)
    print(f"{count} mutations of {len(programs)} programs, seed {seed}")
    for (illegal, fate), number in sorted(tally.table.items()):
        name = "malformed" if fate == "malformed" else f"{'illegal' if illegal else 'legal'}, {fate}"
        print(f"  {number:5d}  {name}")
    print("by kind: " + ", ".join(f"{kind} {n}" for kind, n in sorted(Counter(v.kind for v in tally.verdicts).items())))
    for verdict in tally.survivors:
        proof = "; ".join(verdict.illegal) or "legal: the independent check finds no broken rule"
        print(f"  survived: {verdict.program}: {verdict.damage}: {proof}")
    escaped = sum(v.escaped for v in tally.verdicts)
    wronged = [v for v in tally.verdicts if v.wronged]
    for verdict in wronged:
        said = verdict.reason or "it counts what it does not promise"
        print(f"  legal but refused: {verdict.program}: {verdict.damage}: {said}")
    print(f"{escaped} illegal programs ran with unchanged results and counters; {len(wronged)} legal ones were refused")
    return 1 if escaped or wronged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
