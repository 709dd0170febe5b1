"""Searches for an input whose execution costs more than the bound of its program: ``python -m benchmarks.bounds_hold [N]``.

Hypothesis draws N inputs (1,000) over models whose course or sizes the data decides, and steers towards dear ones. Printed by
model: the bound, the least and the most cycles that were executed, how many different costs were seen, how often the dearest
way was reached, inputs, those that were refused (more trips than were stated), and how many counted more than the bound in any
quantity. Exit status 1 if any did.
"""

from __future__ import annotations

import sys

import compiler
from benchmarks.arguments import counts
from tests.compiler.flow.bounded import MODELS
from tests.compiler.flow.search import search


def main(examples: int = 1000) -> int:
    """Search all models; answers the exit status."""
    each = -(-examples // len(MODELS))
    total = exceeded = 0
    print(
        f"{'model':22}{'bound':>8}{'least':>8}{'most':>8}{'costs':>7}{'at bound':>10}{'inputs':>8}{'refused':>9}{'above':>7}"
    )
    for number, (name, (data, bounds)) in enumerate(MODELS.items()):
        program = compiler.compile(compiler.load(data, bounds=bounds))
        found = search(program, each, number)
        seen = sum(found.cycles.values())
        total, exceeded = total + seen + found.refused, exceeded + len(found.exceeded)
        print(
            f"{name:22}{found.bound:8}{min(found.cycles, default=0):8}{max(found.cycles, default=0):8}{len(found.cycles):7}"
            f"{found.cycles[found.bound]:10}{seen:8}{found.refused:9}{len(found.exceeded):7}"
        )
        for line in found.exceeded[:3]:
            print(f"  above the bound: {line[:300]}")
    print(f"{total} inputs, {exceeded} above the bound")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main(*counts("bounds_hold", __doc__, sys.argv[1:], inputs=1000)))
