"""Every node case of the ONNX standard in scope, compiled and simulated: `python -m benchmarks.conformance [part of a name ...]`

Scope and comparison stand in `tests/compiler/standard.py`. Prints, by operator, how many cases pass, are refused (with the
reason) and come out wrong; which cases have inputs bound as constants (only inputs that fix a shape, an axis or a size),
and which have no input left for the run. Two processes. Ends with status 1 when a case is wrong, or when one fails that
`tests/compiler/standard_refused.txt` does not list. `--interpret` stops before the compiler; `--write` rewrites that list.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.arguments import parser
from tests.compiler.standard import REFUSED, Outcome, cases, interpret, outcome, refused, simulate

WORKERS = 2


def part(share: int, words: tuple[str, ...], interpreted: bool) -> list[Outcome]:
    """What becomes of every case of one worker's share."""
    execute = interpret if interpreted else simulate
    chosen = [c for c in cases() if not words or any(w in c.name for w in words)]
    return [outcome(case, execute) for case in chosen[share::WORKERS]]


def main(arguments: list[str]) -> int:
    """Print the table and the lists; answers the exit status."""
    command = parser("conformance", __doc__)
    command.add_argument("part", nargs="*", help="of the names of cases (all cases, unless given)")
    command.add_argument("--interpret", action="store_true", help="stop before the compiler")
    command.add_argument("--write", action="store_true", help="write the list of what is refused")
    options = command.parse_args(arguments)
    words = tuple(options.part)
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        shares = [pool.submit(part, n, words, options.interpret) for n in range(WORKERS)]
        found = sorted((o for share in shares for o in share.result()), key=lambda o: (o.operator, o.name))
    by_operator: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        by_operator[one.operator][one.verdict] += 1
    for operator, counts in by_operator.items():
        print(f"{operator:32} passed {counts['passed']:4}  refused {counts['refused']:4}  wrong {counts['wrong']:4}")
    bound = [o for o in found if o.bound]
    print(f"\n{len(bound)} cases with inputs bound as constants:")
    for one in bound:
        print(f"  {one.name}: {', '.join(one.bound)} ({one.left} at run time)")
    alone = [o.name for o in found if o.verdict == "passed" and not o.left]
    print(f"\n{len(alone)} cases without an input at run time: {', '.join(alone)}")
    for one in found:
        if one.verdict != "passed":
            print(f"{one.verdict:8} {one.name}: {one.reason[:200]}")
    return _verdict(found, write=options.write and not words)


def _verdict(found: list[Outcome], *, write: bool) -> int:
    total = Counter(o.verdict for o in found)
    print(f"\npassed {total['passed']}, refused {total['refused']}, wrong {total['wrong']} of {len(found)}")
    failing = [o.name for o in found if o.verdict == "refused"]
    if write:
        REFUSED.write_text("".join(f"{name}\n" for name in sorted(failing)), encoding="utf-8")
    fallen = sorted(set(failing) - refused())
    if fallen:
        print(f"refused, but not listed: {', '.join(fallen)}")
    return 1 if total["wrong"] or fallen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
