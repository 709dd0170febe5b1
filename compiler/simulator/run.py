"""`simulate`: a program's bytes and feeds in, outputs and counters out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, overload

import numpy as np

from compiler import targets
from compiler.errors import ModelError
from compiler.isa import NUMPY, Op, Port
from compiler.isa.binary import Binary
from compiler.isa.paths import branches
from compiler.isa.resources import Counters, most
from compiler.numerics.codes import encode
from compiler.simulator.count import Tally
from compiler.simulator.course import check_latency, follow
from compiler.simulator.fault import SimulationError
from compiler.simulator.forms import Array
from compiler.simulator.pace import check_interval, demand_of_prepared, demand_of_whole
from compiler.simulator.placing import Unclear
from compiler.simulator.prepare import Prepared
from compiler.simulator.processor import Host, Processor
from compiler.simulator.whole import Whole
from compiler.targets import Target

# An allocator that has had a block of this many bytes back keeps what is as large for the next array (glibc's ceiling for
# that is 32 MB): otherwise each of thousands of arrays is cleared by the system anew, page by page.
_REUSED = 31 << 20

Feed = Mapping[str, Any]
Outputs = dict[str, Array]


@overload
def simulate(data: bytes | memoryview, feeds: Feed, target: str | Target | None = ...) -> tuple[Outputs, Counters]: ...
@overload
def simulate(
    data: bytes | memoryview, feeds: Sequence[Feed], target: str | Target | None = ...
) -> tuple[list[Outputs], Counters]: ...


def simulate(
    data: bytes | memoryview, feeds: Feed | Sequence[Feed], target: str | Target | None = None
) -> tuple[Outputs | list[Outputs], Counters]:
    """Execute a program on the processor that it names.

    ``feeds``: input name -> array of the model's own type and shape; a list runs back to back at the program's interval,
    with state kept from one to the next, and gives a list of outputs. The counters are those of one inference, counted
    while executing; where data decides the cost, the most of each quantity over the list. ``target``: the processor's
    description or file, where it is neither shipped nor on the search path.
    ``SimulationError`` names cycle, unit, instruction and operation of the first broken rule;
    ``ModelError`` says what is wrong with the bytes, their target or the feeds.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ModelError(f"simulate takes the bytes of a program, as to_bytes gives them, not {type(data).__name__}")
    binary = Binary.from_bytes(data)
    target = target_of(binary, target)
    several = not isinstance(feeds, Mapping)
    given: list[Feed] = list(feeds) if not isinstance(feeds, Mapping) else [feeds]
    checked = [feed_arrays(binary, feed, n if several else None) for n, feed in enumerate(given)]
    if not checked:
        raise ModelError("there is nothing to run: give at least one feed")
    outputs, counters = _run(binary, target, checked)
    return (outputs if several else outputs[0]), counters


def target_of(binary: Binary, given: str | Target | None = None) -> Target:
    """The processor that a program names; refused when its description has changed or the program is too large for it."""
    target = targets.find(binary.target, binary.target_digest, given)
    m = binary.memory
    if any(region % target.line_bytes for region in (m.constants, m.state, m.activations, m.scratch)):
        raise ModelError(f"the program's memory regions are not whole lines of {target.line_bytes} bytes")
    if m.copies > target.copies or m.arena % target.line_bytes:
        raise ModelError(
            f"the program takes {m.copies} arenas of {m.arena} bytes in turn, {target.name} at most {target.copies} of "
            f"whole lines; compile the model again"
        )
    for what, needed, there in (
        ("memory", target.on_chip(m.total, binary.instruction_bytes), target.memory_bytes),
        ("external memory", len(binary.external), target.external.capacity),
    ):
        if needed > there:
            raise ModelError(
                f"the program needs {needed} bytes of {what}, {needed - there} more than {target.name} has ({there}); "
                "use a lower precision or a larger target"
            )
    return target


def feed_arrays(binary: Binary, feed: Feed, number: int | None) -> dict[str, Array]:
    """A feed as contiguous arrays, with every problem in one message."""
    where = "" if number is None else f"feed {number}: "
    if not isinstance(feed, Mapping):
        raise ModelError(f"{where}a feed is a mapping from input name to array, not {type(feed).__name__}")
    inputs = {port.name: port for port in binary.ports if not port.output}
    arrays, problems = _fitting(inputs, feed)
    if problems:
        known = ", ".join(f"{p.name} {NUMPY[p.host or p.dtype]}{list(p.shape)}" for p in inputs.values()) or "none"
        raise ModelError(f"{where}{'; '.join(problems)}. Inputs of this program: {known}")
    return arrays


def _fitting(inputs: Mapping[str, Port], feed: Feed) -> tuple[dict[str, Array], list[str]]:
    """The arrays of a feed that fit their inputs, and what is wrong with the others."""
    problems = [f"there is no input {name!r}" for name in feed if name not in inputs]
    arrays: dict[str, Array] = {}
    for name, port in inputs.items():
        if name not in feed:
            problems.append(f"input {name!r} is missing")
            continue
        array = np.asarray(feed[name])
        if port.host and array.dtype == NUMPY[port.host]:
            array = encode(array, NUMPY[port.dtype], port.scale, port.zero)
        dtype = NUMPY[port.dtype]
        if array.shape != port.shape:
            problems.append(f"input {name!r} has shape {list(array.shape)}, the program takes {list(port.shape)}")
        elif array.dtype.newbyteorder("=") != dtype:
            wanted = NUMPY[port.host or port.dtype]
            problems.append(f"input {name!r} is {array.dtype}, the program takes {wanted}; convert it with .astype")
        else:
            arrays[name] = np.ascontiguousarray(array, dtype)
    return arrays, problems


def loaded(binary: Binary, target: Target) -> Processor:
    """A processor with the program in its memory."""
    _check_sends(binary)
    return Processor(binary, target)


def execute(
    processor: Processor, feeds: list[dict[str, Array]], clock: int = 0
) -> tuple[list[Outputs], list[Counters], int]:
    """Run inferences at the program's interval from cycle ``clock`` on: outputs and counters of each, and the cycle after."""
    binary = processor.binary
    hosts = [processor.begin(feed) for feed in feeds]
    tallies = [Tally(processor.target) for _ in feeds]
    starts = [clock + n * binary.interval for n in range(len(feeds))]

    def issue(p: Prepared, cycle: int, inference: int) -> bool:
        return processor.issue(p, cycle, hosts[inference], tallies[inference])

    follow(processor.program, starts, issue)
    check_latency(binary, processor.program)
    _check_interval(processor)
    for host in hosts:
        if not all(sent.all() for sent in host.sent.values()):
            raise ModelError("a branch left out a part of an output; this is a defect of the compiler")
    after = max([clock, *(tally.end for tally in tallies)])
    for tally, start in zip(tallies, starts, strict=True):
        tally.end = max(0, tally.end - start)
    counted = [tally.counters(binary, processor.memory, binary.interval) for tally in tallies]
    return [_named(binary, host) for host in hosts], counted, after


def _check_interval(processor: Processor) -> None:
    """Once for each processor, as it asks for nothing but the program."""
    if not processor.paced:
        binary, program = processor.binary, processor.program
        single = not branches(binary.rows) and program
        check_interval(binary, demand_of_prepared(binary, processor.target, program) if single else None)
        processor.paced = True


def _run(binary: Binary, target: Target, feeds: list[dict[str, Array]]) -> tuple[list[Outputs], Counters]:
    if len(feeds) == 1 and (found := together(binary, target, feeds[0])) is not None:
        return [found[0]], found[1]
    named, counted, _ = execute(loaded(binary, target), feeds)
    if binary.exact and any(counters != counted[0] for counters in counted):
        raise ModelError("inferences of one program have different counters; this is a defect of the simulator")
    return named, most(counted)


def together(binary: Binary, target: Target, feed: dict[str, Array]) -> tuple[Outputs, Counters] | None:
    """One inference with all instructions that are alike at once; None for a program that is to be taken one by one."""
    np.empty(_REUSED, np.uint8)
    try:
        whole = Whole(binary, target)
        host = Host(binary, feed)
        tally = whole.run(host)
        if not all(sent.all() for sent in host.sent.values()):
            return None
        demand = demand_of_whole(whole)
    except Unclear:
        return None
    check_interval(binary, demand)
    return _named(binary, host), tally.counters(binary, whole.memory, binary.interval)


def _named(binary: Binary, host: Host) -> Outputs:
    """An inference's outputs by name, each without what lies behind its length."""
    found = {binary.ports[n].name: array for n, array in host.outputs.items()}
    for port in binary.ports:
        if port.length:
            count = max(0, int(found[port.length]))
            found[port.name] = found[port.name][(slice(None),) * port.axis + (slice(0, count),)]
    return found


def _check_sends(binary: Binary) -> None:
    """Every output is sent in full, before anything of its size is set aside; a part sent twice is refused when it is."""
    sent = dict.fromkeys(range(len(binary.ports)), 0)
    for i in binary.rows:
        if i.opcode == Op.SEND:
            sent[i.port - 1] += i.count1 * i.count2
    for n, port in enumerate(binary.ports):
        if port.output and sent[n] < prod(port.shape):
            raise SimulationError(
                f"output {port.name!r} is not sent completely",
                cycle=binary.rows[-1].cycle if binary.rows else 0,
                unit="link_out[0]",
                instruction=len(binary.rows),
                source="",
            )
