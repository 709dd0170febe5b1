"""Resources of one inference, and of loading its program: sums over the instructions and the memory map."""

from __future__ import annotations

from compiler.isa.binary import Binary
from compiler.isa.counting import Counts, dearest_counts
from compiler.isa.paths import longest
from compiler.isa.resources import Io, Load, Memory, Resources, Storage
from compiler.isa.timing import ceil_div
from compiler.isa.timings import Timings
from compiler.targets import Target


def resources_of(binary: Binary, target: Target) -> Resources:
    """What the simulator will count, from the instructions' own fields; with branches the most that it can count."""
    total = Counts.total(dearest_counts(target, binary, binary.rows))
    timings = Timings(target, binary)
    cycles, _ = longest(binary.rows, [i.cycle + timings.of(i).end for i in binary.rows])
    m = binary.memory
    instructions = binary.instruction_bytes
    storage = Storage(
        weights=m.constants,
        activations=m.activations,
        state=m.state,
        instructions=instructions,
        scratch=m.scratch,
        total=m.total + instructions,
        external=len(binary.external),
    )
    return Resources(
        operations=total.operations,
        executed_operations=total.executed,
        storage=storage,
        io=Io(bytes_in=total.bytes_in, bytes_out=total.bytes_out, external_in=total.external_in, external_out=0),
        memory=Memory(read=total.read, written=total.written),
        cycles=cycles,
        interval=binary.interval,
        energy_fj=total.energy_fj(dict(target.energy), cycles),
        exact=binary.exact,
        reason=binary.reason,
        load=load_of(storage, target),
    )


def load_of(storage: Storage, target: Target) -> Load:
    """Loading a program of that storage: its instructions, constants, first state and image of external memory, one behind the
    other over all instances of the link, after its latency once."""
    link = target.link_in
    total = storage.instructions + storage.weights + storage.state + storage.external
    return Load(
        instructions=storage.instructions,
        constants=storage.weights,
        state=storage.state,
        external=storage.external,
        bytes_in=total,
        cycles_in=link.latency + ceil_div(total, link.instances * link.bytes_per_cycle),
    )
