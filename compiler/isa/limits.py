"""What one instruction may cover on a given processor: no more than one tile of its unit."""

from __future__ import annotations

from compiler.isa.element import SIZE
from compiler.isa.instruction import Instruction, Op
from compiler.isa.machine import ExternalUnit, LinkUnit, Machine
from compiler.isa.table import TABLE
from compiler.isa.tables import Tables
from compiler.isa.timing import sort_run


def exceeds(machine: Machine, tables: Tables, i: Instruction) -> str:
    """Which size of the unit an instruction goes beyond; '' when none."""
    name = TABLE[Op(i.opcode)].unit
    unit = machine.unit(name)
    if i.unit >= unit.instances:
        return f"there are {unit.instances} units {name}"
    if i.opcode in (Op.LOADW, Op.MATMUL):
        return _plane(machine, tables, i)
    if i.opcode == Op.BRANCH:
        return ""
    if i.opcode == Op.SORT and i.count2 > sort_run(machine):
        return f"a row of {i.count2} numbers; the network orders {sort_run(machine)}"
    amount, what = i.count1 * i.count2, "elements"
    if isinstance(unit, LinkUnit):
        amount, what = amount * SIZE[tables.ports[i.port - 1].dtype], "bytes"
    if isinstance(unit, ExternalUnit):
        amount, what = amount * tables.streams[i.out - 1].size, "bytes"
    return f"a tile of {amount} {what}; at most {unit.tile} are allowed" if amount > unit.tile else ""


def _plane(machine: Machine, tables: Tables, i: Instruction) -> str:
    dtype = tables.streams[i.a - 1].dtype
    if dtype not in machine.matrix.tiles:
        return f"the planes do not multiply {dtype}"
    rows, columns = machine.matrix.tiles[dtype]
    k, n = (i.count1, i.count2 * max(1, i.blocks)) if i.opcode == Op.LOADW else (i.count2, i.count3)
    if k > rows or n > columns:
        return f"weights of {k} x {n}; the plane holds {rows} x {columns}"
    if i.slot >= machine.matrix.slots:
        return f"there are {machine.matrix.slots} weight slots"
    if i.opcode == Op.MATMUL and i.row + i.count1 > machine.matrix.accumulator_rows:
        return f"accumulator rows to {i.row + i.count1}; the plane has {machine.matrix.accumulator_rows}"
    return ""
