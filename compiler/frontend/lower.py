"""The walk over a model's operations: names, known values, functions, and every problem at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from compiler.errors import ModelError
from compiler.frontend import bounded, stored
from compiler.frontend.limits import DEFAULT, Limits
from compiler.frontend.op import Op, Rule, tupled
from compiler.frontend.operators import MICROSOFT, OTHERS, RULES
from compiler.frontend.tensors import ELEMENT_TYPES, tensor_array
from compiler.ir import TensorType
from compiler.ir.builder import Builder

_DOMAINS = ("", "ai.onnx")
# What an operation that contradicts itself can end in: told like any other mistake of the model, with the cause kept.
_SENSELESS = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError, RecursionError)
# Attributes of other domains that choose how a runtime computes, not what.
_HARMLESS = ("accuracy_level", "mask_index_type", "stash_type")
_REMEDY = {
    "ai.onnx.ml": "Export the numeric part only (of scikit-learn with zipmap=False); texts and maps are not offered.",
    "com.microsoft": "Export the model without the optimisations of one runtime (standard operators only).",
}


class _TooMany(ModelError):
    """A model that unrolls without end: nothing after it is looked at."""


def too_many(limits: Limits) -> ModelError:
    """What is said of a model whose functions and loops stand for more operations than there may be."""
    return _TooMany(f"The model unrolls to more than {limits.graph_nodes} operations. Flatten or shorten it.")


class Lowering:
    """Lowers graphs into one builder. Values are looked up in scopes: a dictionary from ONNX name to value."""

    def __init__(
        self, b: Builder, opsets: Mapping[str, int], functions: Iterable[FunctionProto] = (), limits: Limits = DEFAULT
    ) -> None:
        self.b, self.opsets, self.limits = b, dict(opsets), limits
        self.functions = {(_domain(f.domain), f.name): f for f in functions}
        self.problems: list[ModelError] = []
        self.names: dict[str, str] = {}  # value -> what the model calls it
        self.folder: Path | None = None  # where the model's side files are
        self.bounds: dict[str, int] = {}  # loop -> most trips, as stated by whoever compiles
        self.loops: set[str] = set()  # loops that have been met
        self.withheld: dict[str, ModelError] = {}  # outputs that no rule gives: a problem for whoever reads them
        self._sources: set[str] = set()
        self._depth = 0
        self._walked = 0

    # -- what is there at all -------------------------------------------------------------------------------------------

    def unsupported(self, graph: GraphProto) -> list[ModelError]:
        """One problem per unsupported operator, with how often and where it stands."""
        where: dict[tuple[str, str], list[str]] = {}
        for node in _every_node(graph.node, self.limits.depth):
            if self._rule(node) is None and self._body(node) is None and self._schema(node) is None:
                where.setdefault((_domain(node.domain), node.op_type), []).append(node.name or node.op_type)
        return [self._refusal(domain, kind, names) for (domain, kind), names in where.items()]

    def _refusal(self, domain: str, kind: str, names: list[str]) -> ModelError:
        shown = ", ".join(n[: self.limits.text] for n in names[:3]) + (", ..." if len(names) > 3 else "")
        title = f"{domain}.{kind}" if domain else kind
        known = not domain and onnx.defs.has(kind)
        reason = "is not supported yet" if known else "is not an operator of the ONNX standard"
        remedy = _REMEDY.get(domain, "Replace it by other operators, or tell us that you need it.")
        return ModelError(f"{title} {reason} ({len(names)} x: {shown}). {remedy}", node=names[0][: self.limits.text])

    def _rule(self, node: NodeProto) -> Rule | None:
        if node.domain in OTHERS:
            return OTHERS[node.domain].get(node.op_type)
        if node.op_type == "SimplifiedLayerNormalization":  # a runtime's own, which it puts into the standard's domain
            return MICROSOFT[node.op_type]
        return RULES.get(node.op_type) if node.domain in _DOMAINS else None

    def _body(self, node: NodeProto) -> FunctionProto | None:
        """The body of a model's own function, or of an operator that the standard defines by others."""
        own = self.functions.get((_domain(node.domain), node.op_type))
        if own is not None or node.domain not in _DOMAINS:
            return own
        version = self.opsets.get("", 1)
        if not onnx.defs.has(node.op_type) or version > onnx.defs.onnx_opset_version():
            return None
        try:
            schema = onnx.defs.get_schema(node.op_type, version)
        except onnx.defs.SchemaError:
            return None
        return schema.function_body if getattr(schema, "has_function", False) else None

    def _schema(self, node: NodeProto) -> onnx.defs.OpSchema | None:
        """The standard's entry for an operator whose body depends on its attributes and on the types of its inputs."""
        if node.domain not in _DOMAINS or not onnx.defs.has(node.op_type):
            return None
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets.get("", 1))
        except onnx.defs.SchemaError:
            return None
        return schema if schema.has_context_dependent_function else None  # type: ignore[attr-defined]

    def _with_defaults(self, node: NodeProto) -> dict[str, AttributeProto]:
        """Attributes of an operation, with those that the standard gives it when a model leaves them out."""
        given = {a.name: a for a in node.attribute}
        if node.domain not in _DOMAINS or not onnx.defs.has(node.op_type):
            return given
        known = onnx.defs.get_schema(node.op_type, self.opsets.get("", 1)).attributes
        return {name: a.default_value for name, a in known.items() if a.default_value.type} | given

    def _specialised(self, node: NodeProto, inputs: Sequence[str | None]) -> FunctionProto | None:
        """The body that the standard builds for an operation's attributes and types."""
        schema = self._schema(node)
        if schema is None:
            return None
        kinds = [onnx.TypeProto() if v is None else _onnx_type(self.b.types[v]) for v in inputs]
        given = [kind.SerializeToString() for kind in kinds]
        text = schema.get_context_dependent_function(node.SerializeToString(), given)  # type: ignore[attr-defined]
        return FunctionProto.FromString(text) if text else None

    # -- graphs ---------------------------------------------------------------------------------------------------------

    def graph(self, graph: GraphProto, scope: dict[str, str | None]) -> None:
        """Lowers all operations in an order in which their inputs are known; results go into ``scope``."""
        self._check_names(graph)
        for tensor in graph.initializer:
            if tensor.name not in scope:
                self._collect(
                    lambda tensor=tensor: scope.__setitem__(
                        tensor.name, self.b.constant(tensor_array(tensor, self.limits, self.folder))
                    )
                )
                scope.setdefault(tensor.name, None)
        if graph.sparse_initializer:
            self.problems.append(ModelError("The model holds sparse tensors. Export it with dense weights."))
        for place, node in self._ordered(graph.node, scope):
            self.node(node, place, scope)

    def _check_names(self, graph: GraphProto) -> None:
        """A name that two values of a graph have would let the order of the file decide which of them is read."""
        stored = Counter(t.name for t in graph.initializer)
        made = Counter(o for n in graph.node for o in n.output if o)
        given = {*stored, *(v.name for v in graph.input)}
        twice = [name for name, count in stored.items() if count > 1]
        twice += [name for name, count in made.items() if count > 1 or name in given]
        if twice:
            raise ModelError(f"Two values have the name {twice[0][:80]!r}. Export the model anew.")

    def _ordered(self, nodes: Sequence[NodeProto], scope: Mapping[str, str | None]) -> list[tuple[int, NodeProto]]:
        """Operations with their places, each behind those whose results it reads; in the order of the file where that is one."""
        made = {o for n in nodes for o in n.output if o}.difference(scope)
        needs = [made.intersection(self._reads(node)) for node in nodes]
        if _in_order(nodes, needs):
            return list(enumerate(nodes))
        order = _sorted(nodes, needs)
        if len(order) < len(nodes):
            placed = set(order)
            stuck = [n.name or n.op_type for i, n in enumerate(nodes) if i not in placed]
            raise ModelError(
                f"The graph is cyclic: {', '.join(s[:80] for s in stuck[:4])} need each other's results. Export the model anew.",
                node=stuck[0][: self.limits.text],
            )
        return [(i, nodes[i]) for i in order]

    def _reads(self, node: NodeProto) -> list[str]:
        """Values that a node reads, those of its subgraphs included."""
        found = [v for v in node.input if v]
        for attribute in node.attribute:
            for graph in (
                (attribute.g, *attribute.graphs)
                if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
                else ()
            ):
                found += [v for inner in _every_node(graph.node, self.limits.depth) for v in inner.input if v]
        return found

    # -- one operation --------------------------------------------------------------------------------------------------

    def node(self, node: NodeProto, place: int, scope: dict[str, str | None]) -> None:
        """Lowers one operation; what goes wrong is noted, and its results are unknown from then on."""
        self._walked += 1
        if self._walked > self.limits.graph_nodes:
            raise too_many(self.limits)
        if self._depth == 0:
            self.b.source = (self._source(node, place),)
        name = self.b.source[0] if self.b.source else node.op_type
        for output in node.output:
            scope.setdefault(output, None)
        inputs: list[str | None] = []
        for v in node.input:
            if v and v not in scope:
                self.problems.append(
                    ModelError(
                        f"{node.op_type} reads {v[:80]!r}, which nothing computes. Export the model anew.", node=name
                    )
                )
                return
            if v and scope[v] is None:
                self.problems += [self.withheld[v]] if v in self.withheld else []
                return  # a problem further up, reported there
            inputs.append(scope[v] if v else None)
        self._collect(lambda: self._apply(node, name, inputs, scope), name)

    def _apply(self, node: NodeProto, name: str, inputs: list[str | None], scope: dict[str, str | None]) -> None:
        rule, failed = self._rule(node), len(self.problems)
        if (_domain(node.domain), node.op_type) in self.functions or rule is None:
            function = self._body(node) or self._specialised(node, inputs)
            if function is None:
                return  # listed by ``unsupported``
            results: Sequence[str | None] = self._call(function, self._with_defaults(node), inputs)
        else:
            results = self._operator(node, name, rule, inputs, scope)
        for i, output in enumerate(node.output):
            if not output:
                continue
            value = results[i] if i < len(results) else None
            if value is None:
                if failed < len(self.problems):
                    continue  # what a body could not compute is told already
                self.withheld[output] = ModelError(
                    f"{node.op_type}: its output {i + 1} is not supported. Leave it unused.", node=name
                )
                continue
            scope[output] = value
            if self._depth == 0:
                self.names.setdefault(value, output)

    def _operator(
        self, node: NodeProto, name: str, rule: Rule, inputs: list[str | None], scope: dict[str, str | None]
    ) -> Sequence[str | None]:
        """The results of an operator that has a rule."""
        label = node.name or name
        if node.op_type == "Loop":
            self.loops.add(label)
        op = Op(
            self.b,
            name=name,
            label=label,
            bound=self.bounds.get(label),
            kind=node.op_type,
            opset=self.opsets.get("", 1),
            attributes={a.name: a for a in node.attribute},
            inputs=inputs,
            outputs=max((i + 1 for i, o in enumerate(node.output) if o), default=0),
            body=lambda graph, given: self.subgraph(graph, given, scope),
        )
        op, restore = stored.computing(op) if node.domain in _DOMAINS else (op, tupled)
        results = restore(bounded.apply(op, rule) if bounded.needs_care(op) else rule(op))
        unread = [n for n in op.attributes.unread() if node.domain not in _DOMAINS and n not in _HARMLESS]
        op.need(not unread, f"its attribute {', '.join(map(repr, unread))[:200]} is not known here. Leave it out.")
        return results

    def _call(
        self, function: FunctionProto, attributes: Mapping[str, AttributeProto], inputs: Sequence[str | None]
    ) -> list[str | None]:
        """A function's body with its attributes and inputs put in."""
        defaults = {a.name: a for a in function.attribute_proto}
        given = {**defaults, **attributes}
        scope: dict[str, str | None] = {"": None}
        for i, name in enumerate(function.input):
            if i < len(inputs) and inputs[i] is not None:
                scope[name] = inputs[i]
        absent = set(function.input) - set(scope)
        versions = {_domain(o.domain): int(o.version) for o in function.opset_import}
        self._enter(function.name)
        saved, self.opsets = self.opsets, {**self.opsets, **versions}
        try:
            body = [_bound(n, given, absent) for n in function.node]
            for place, node in self._ordered(body, scope):
                self.node(node, place, scope)
        finally:
            self.opsets = saved
            self._depth -= 1
        return [scope.get(o) for o in function.output]

    def subgraph(self, graph: GraphProto, given: Mapping[str, str], outer: Mapping[str, str | None]) -> tuple[str, ...]:
        """A subgraph's outputs for values of its inputs; it sees the names around it."""
        scope: dict[str, str | None] = {**outer, **given}
        self._enter("a subgraph")
        try:
            self.graph(graph, scope)
        finally:
            self._depth -= 1
        results = []
        for o in graph.output:
            value = scope.get(o.name)
            if value is None:
                raise ModelError(f"A subgraph does not compute its output {o.name[:80]!r}.")
            if value in self.b.lengths:
                raise ModelError(f"The size of {o.name[:80]!r}, which a subgraph gives, depends on the data.")
            results.append(value)
        return tuple(results)

    def _enter(self, what: str) -> None:
        self._depth += 1
        if self._depth > self.limits.depth:
            self._depth -= 1
            raise ModelError(f"{what} is nested more than {self.limits.depth} deep. Flatten the model.")

    def _source(self, node: NodeProto, place: int) -> str:
        """A unique name for reports: the node's own, or its operator and place."""
        base = (node.name or f"{node.op_type}_{place}")[: self.limits.text]
        name, n = base, 1
        while name in self._sources:
            n += 1
            name = f"{base}.{n}"
        self._sources.add(name)
        return name

    def _collect(self, action: object, name: str = "") -> None:
        try:
            action()  # type: ignore[operator]
        except _TooMany:
            raise
        except ModelError as error:
            self.problems.append(error if error.node or not name else _named(error, name))
        except _SENSELESS as error:
            problem = ModelError(
                "its attributes and inputs do not make sense together. Export the model anew.", node=name
            )
            problem.__cause__ = error
            self.problems.append(problem)
        except MemoryError:
            self.problems.append(ModelError("needs more memory than there is. Choose smaller dimensions.", node=name))


def _named(error: ModelError, name: str) -> ModelError:
    return ModelError(error.message, node=name, problems=error.problems, hint=error.hint)


def _onnx_type(kind: TensorType) -> onnx.TypeProto:
    code = next(code for code, dtype in ELEMENT_TYPES.items() if dtype == kind.dtype)
    return onnx.helper.make_tensor_type_proto(code, kind.shape)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _in_order(nodes: Sequence[NodeProto], needs: Sequence[set[str]]) -> bool:
    """Whether each node stands behind those that make what it ``needs``."""
    seen: set[str] = set()
    for node, values in zip(nodes, needs, strict=True):
        if not values <= seen:
            return False
        seen.update(node.output)
    return True


def _sorted(nodes: Sequence[NodeProto], needs: Sequence[set[str]]) -> list[int]:
    """Places of the nodes by Kahn's algorithm; those on a cycle, and all that needs them, are left out."""
    waiting: dict[str, list[int]] = {}
    for i, values in enumerate(needs):
        for v in values:
            waiting.setdefault(v, []).append(i)
    missing = [len(values) for values in needs]
    order = [i for i, count in enumerate(missing) if not count]
    for i in order:  # grows while it is walked
        for o in nodes[i].output:
            for j in waiting.pop(o, ()):
                missing[j] -= 1
                if not missing[j]:
                    order.append(j)
    return order


def _every_node(nodes: Iterable[NodeProto], depth: int) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH and depth > 0:
                yield from _every_node(attribute.g.node, depth - 1)


def _bound(node: NodeProto, given: Mapping[str, AttributeProto], absent: set[str]) -> NodeProto:
    """A node of a function's body with references to the function's attributes replaced; inputs not given are left out."""
    new = NodeProto()
    new.CopyFrom(node)
    del new.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            new.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            value = AttributeProto()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
            new.attribute.append(value)
    inputs = ["" if v in absent else v for v in node.input]
    del new.input[:]
    new.input.extend(inputs)
    return new
