"""Random models beside ONNX Runtime and the reference: `python -m benchmarks.odd [N] [FIRST] [--target T] [--precision P]`

N models (2,000) of one to five operations with odd attributes, ranks, types, opsets, sizes of nothing and dimensions left open
(`tests/compiler/odd`), each compiled and run through binary and simulator. Printed: how many passed, were refused (and why, most
often first), are disputed (the two others differ and ours equals the reference), came out wrong, or are models of which
neither runtime makes anything; every wrong one with its number (FIRST repeats one). Ends with status 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter

from tests.compiler.odd.verdict import DISPUTED, LOSSY, NOTHING, PASSED, REFUSED, WRONG, verdict


def main(arguments: list[str]) -> int:
    """Draw, compare and print; answers the exit status."""
    parser = argparse.ArgumentParser(description="Random small models against other runtimes.")
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--target", default="lpu")
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    operators: set[str] = set()
    reasons: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.count):
        one = verdict(seed, options.target, options.precision)
        found[one.what] += 1
        if one.what in (PASSED, DISPUTED):
            operators.update(one.kinds)
        if one.what == REFUSED:
            reasons[re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'..'", one.reason))[:150]] += 1
        if one.what in (WRONG, DISPUTED, LOSSY):
            print(f"{one.what} {seed} opset {one.opset} {', '.join(one.kinds)}: {one.reason}", flush=True)
    for reason, times in reasons.most_common(40):
        print(f"refused {times:5} x {reason}")
    print(
        ", ".join(f"{what} {found[what]}" for what in (PASSED, REFUSED, DISPUTED, LOSSY, WRONG, NOTHING)),
        f"of {options.count}; operators that passed: {len(operators)}",
    )
    return 1 if found[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
