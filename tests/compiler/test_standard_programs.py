"""A share of the standard's cases through the binary and the simulator: what the frontend takes, the machine runs."""

import zlib

from tests.compiler.standard import outcomes, simulate


def chosen(name):
    """One case in ten, the same ones on every machine."""
    return zlib.crc32(name.encode()) % 10 == 3


def test_no_compiled_case_of_the_standard_comes_out_wrong():
    found = list(outcomes(simulate, chosen))
    wrong = [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong" or "not a valid program" in o.reason]
    assert not wrong, "\n".join(wrong)
    assert sum(o.verdict == "passed" for o in found) >= 90
