"""500 seeded mutations of valid programs, made by hand and by the compiler: `python -m benchmarks.mutations [COUNT] [SEED]`.

Every one that an independent brute-force check calls illegal must be refused or change the results. Those that survive are
listed, each with the proof that it is legal: that check found nothing.
"""

from __future__ import annotations

import sys

from tests.compiler.oracle import compiled, mutate
from tests.compiler.oracle.programs import samples


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 500
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    tally = mutate.run([*samples(), *compiled.samples()], count, seed)
    print(f"{count} mutations, seed {seed}")
    for (illegal, fate), number in sorted(tally.table.items()):
        name = "malformed" if fate == "malformed" else f"{'illegal' if illegal else 'legal'}, {fate}"
        print(f"  {number:5d}  {name}")
    for verdict in tally.survivors:
        proof = "; ".join(verdict.illegal) or "legal: the independent check finds no broken rule"
        print(f"  survived: {verdict.program}: {verdict.damage}: {proof}")
    escaped = sum(v.escaped for v in tally.verdicts)
    wronged = [v for v in tally.verdicts if v.wronged]
    for verdict in wronged:
        print(f"  legal but refused: {verdict.program}: {verdict.damage}: {verdict.reason}")
    print(f"{escaped} illegal programs ran with unchanged results; {len(wronged)} legal ones were refused")
    return 1 if escaped or wronged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
