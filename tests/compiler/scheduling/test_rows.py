"""What one operation makes of a row is there for the next before the last row is done."""

from compiler import targets
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds

F32 = DType.F32
ROWS, COLUMNS = 16, 384


def centred(product):
    """A matrix of which every row loses its sum; ``product``: the sums are also multiplied by weights."""
    b = Builder("centred")
    x = b.input("x", TensorType(F32, (ROWS, COLUMNS)))
    b.source = ("centred",)
    total = b.compute((ROWS, COLUMNS), [Operand(x, Access.identity(2))], arg(0, F32), parallel=1, reducer="sum")
    row = Operand(total, Access((0,), ((1, 0),)))
    less = b.compute((ROWS, COLUMNS), [Operand(x, Access.identity(2)), row], arg(0, F32) - arg(1, F32))
    outputs = {"less": less}
    if product:
        other = b.input("other", TensorType(F32, (8, ROWS)))
        factors = [Operand(total, Access((0,), ((0, 1),))), Operand(other, Access((0, 0), ((1, 0), (0, 1))))]
        term = arg(0, F32).widen("mul", arg(1, F32), F32)
        outputs["product"] = b.compute((8, ROWS), factors, term, parallel=1, reducer="sum")
    return b.finish(outputs, {}, {})


def test_a_row_waits_for_its_own_sum_alone():
    plan = build(centred(product=False), targets.load("lpu"), quiet, objective="latency")
    sums = [n for n, t in enumerate(plan.tiles) if t.instruction.reducer]
    maps = [n for n, t in enumerate(plan.tiles) if t.unit[0] == "vector" and not t.instruction.reducer]
    complete = max(plan.start[n] + plan.tiles[n].end for n in sums)
    assert min(plan.start[n] for n in maps) < complete - ROWS // 2


def test_sums_that_are_multiplied_lie_side_by_side():
    graph = centred(product=True)
    total = graph.nodes[0].output
    plan = build(graph, targets.load("lpu"), quiet)
    assert plan.space.buffers[total].size == targets.load("lpu").line_bytes


def test_the_results_are_exact():
    for product in (False, True):
        graph = centred(product)
        check_program(graph, "lpu", [feeds(graph, 1), feeds(graph, 2)])
