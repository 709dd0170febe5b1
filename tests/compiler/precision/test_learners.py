"""Trees, linear models and what prepares their inputs give what ONNX Runtime gives, through binary and simulator."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from tests.tiers import some

f4 = np.float32
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
few = settings(deadline=None, max_examples=some(5))


def node(kind, names=("x",), outputs=("y",), **attributes):
    return helper.make_node(kind, list(names), list(outputs), domain="ai.onnx.ml", **attributes)


def both(nodes, feeds, outputs, *, version=3):
    """Our outputs by the binary and ONNX Runtime's."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    made = [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    model = helper.make_model(helper.make_graph(nodes, "one", inputs, made), opset_imports=imports, ir_version=9)
    data = model.SerializeToString()
    program = compiler.compile(compiler.load(data))
    found, counters = compiler.simulate(program.to_bytes(), feeds)
    assert counters == program.resources
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return found, dict(zip(outputs, session.run(list(outputs), feeds), strict=True))


def same(nodes, feeds, outputs, **more):
    found, expected = both(nodes, feeds, outputs, **more)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if array.dtype.kind == "f":
            assert np.allclose(found[name], array, rtol=1e-5, atol=1e-6, equal_nan=True), name
        else:
            assert np.array_equal(found[name], array), name
    return found


def trees(rng, features, count, depth, modes, results, prefix):
    """Attributes of random trees; splits lie where inputs lie, so that all branches are taken."""
    a = {
        name: []
        for name in (
            "nodes_treeids",
            "nodes_nodeids",
            "nodes_featureids",
            "nodes_values",
            "nodes_modes",
            "nodes_truenodeids",
            "nodes_falsenodeids",
            "nodes_missing_value_tracks_true",
            "nodes_hitrates",
            f"{prefix}_treeids",
            f"{prefix}_nodeids",
            f"{prefix}_ids",
            f"{prefix}_weights",
        )
    }

    def grow(tree, left, free):
        me = free[0]
        free[0] += 1
        row = len(a["nodes_nodeids"])
        leaf = left == 0 or rng.random() < 0.2
        for name, value in (
            ("treeids", tree),
            ("nodeids", me),
            ("featureids", 0 if leaf else int(rng.integers(features))),
            ("values", 0.0 if leaf else float(rng.integers(-2, 3)) / 2),
            ("modes", "LEAF" if leaf else str(rng.choice(modes))),
            ("truenodeids", 0),
            ("falsenodeids", 0),
            ("missing_value_tracks_true", int(rng.integers(2))),
            ("hitrates", 1.0),
        ):
            a[f"nodes_{name}"].append(value)
        if leaf:
            for one in results if isinstance(results, list) else range(results):
                for name, value in (
                    ("treeids", tree),
                    ("nodeids", me),
                    ("ids", one),
                    ("weights", float(f4(rng.normal()))),
                ):
                    a[f"{prefix}_{name}"].append(value)
            return me
        a["nodes_truenodeids"][row] = grow(tree, left - 1, free)
        a["nodes_falsenodeids"][row] = grow(tree, left - 1, free)
        return me

    for tree in range(count):
        grow(tree, depth, [0])
    return a


def rows(rng, features, nan=False, dtype=f4):
    x = (rng.integers(-2, 3, (6, features)) / 2).astype(dtype)
    if nan:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


@few
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
    st.booleans(),
    st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]),
    st.sampled_from([[m] for m in MODES] + [list(MODES)]),
)
def test_trees_that_add_up(seed, how, nan, post, modes):
    rng = np.random.default_rng(seed)
    made = trees(rng, 4, 3, 4, modes, 2, "target")
    made |= {"n_targets": 2, "aggregate_function": how, "post_transform": post, "base_values": [0.5, -1.0]}
    same([node("TreeEnsembleRegressor", **made)], {"x": rows(rng, 4, nan)}, {"y": TensorProto.FLOAT})


@few
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX"]), st.booleans()
)
def test_trees_that_vote(seed, classes, post, based):
    rng = np.random.default_rng(seed)
    made = trees(rng, 4, 3, 3, list(MODES[:2]), classes, "class")
    made |= {"classlabels_int64s": [7, 3, 9][:classes], "post_transform": post}
    if based and classes == 3:
        made["base_values"] = [0.25, -0.5, 0.125]
    outputs = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    if classes == 2:  # runtimes do not agree about the label
        del outputs["label"]
    same([node("TreeEnsembleClassifier", outputs=("label", "y"), **made)], {"x": rows(rng, 4)}, outputs)


@few
@given(
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX"]),
    st.sampled_from([0, 1, 2]),
)
def test_trees_that_score_one_of_two_classes(seed, positive, post, which):
    rng = np.random.default_rng(seed)
    based = which == 2
    made = trees(rng, 4, 3, 3, ["BRANCH_LEQ"], [which % 2], "class")
    if positive:
        made["class_weights"] = [abs(w) / 4 for w in made["class_weights"]]
    made |= {"classlabels_int64s": [0, 1], "post_transform": post}
    if based:
        made["base_values"] = [0.25]
    outputs = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    same([node("TreeEnsembleClassifier", outputs=("label", "y"), **made)], {"x": rows(rng, 4)}, outputs)


def test_trees_with_sets_of_values():
    """A node asks whether its feature is one of a set; nothing (NaN) is in none."""
    modes = np.array([0, 6, 6], "u1")
    made = node(
        "TreeEnsemble",
        n_targets=2,
        aggregate_function=1,
        post_transform=0,
        tree_roots=[0],
        nodes_modes=helper.make_tensor("m", TensorProto.UINT8, (3,), modes),
        nodes_featureids=[0, 1, 2],
        nodes_splits=helper.make_tensor("s", TensorProto.FLOAT, (3,), [0.5, 0.0, 0.0]),
        nodes_truenodeids=[1, 0, 2],
        nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 1, 3],
        nodes_falseleafs=[0, 1, 1],
        leaf_targetids=[0, 1, 0, 1],
        leaf_weights=helper.make_tensor("w", TensorProto.FLOAT, (4,), [1.5, -2.0, 0.25, 8.0]),
        membership_values=helper.make_tensor("v", TensorProto.FLOAT, (6,), [-1.0, 2.0, 1.0, np.nan, 3.0, np.nan]),
    )
    x = np.array([[0, -1, 1], [0, 2, 0], [0.5, 1, 1], [0.5, 0, 2], [1, 1, 3], [1, 3, 1], [np.nan, 0, np.nan]], f4)
    found = same([made], {"x": x}, {"y": TensorProto.FLOAT}, version=5)
    assert np.array_equal(found["y"].sum(axis=1), np.array([1.5, 1.5, 1.5, -2.0, 0.25, 8.0, 8.0], f4))


def test_linear_models():
    rng = np.random.default_rng(0)
    x = {"x": rng.standard_normal((5, 4)).astype(f4)}
    c, b = [float(v) for v in rng.standard_normal(12)], [0.5, -0.25, 1.0]
    same([node("LinearRegressor", coefficients=c, intercepts=b, targets=3)], x, {"y": TensorProto.FLOAT})
    outputs = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        made = node(
            "LinearClassifier",
            outputs=tuple(outputs),
            coefficients=c,
            intercepts=b,
            classlabels_ints=[4, 1, 2],
            post_transform=post,
        )
        same([made], x, outputs)
        made = node(
            "LinearClassifier",
            outputs=tuple(outputs),
            coefficients=c[:4],
            intercepts=b[:1],
            classlabels_ints=[0, 1],
            post_transform=post,
        )
        same([made], x, outputs)


def test_what_prepares_features():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 3)).astype(f4)
    x[2] = 0
    y = {"y": TensorProto.FLOAT}
    same([node("Scaler", offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 3.0])], {"x": x}, y)
    same([node("Scaler", offset=[0.5], scale=[2.0])], {"x": np.arange(6, dtype="i8").reshape(2, 3)}, y)
    for norm in ("MAX", "L1", "L2"):
        same([node("Normalizer", norm=norm)], {"x": x}, y)
    same([node("Binarizer", threshold=0.25)], {"x": x}, y)
    holes = np.where(rng.random(x.shape) < 0.4, np.nan, x).astype(f4)
    same([node("Imputer", imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))], {"x": holes}, y)
    same(
        [node("Imputer", imputed_value_int64s=[5], replaced_value_int64=-1)],
        {"x": np.array([[1, -1], [-1, 3]], "i8")},
        {"y": TensorProto.INT64},
    )
    same([node("ArrayFeatureExtractor", ("x", "i"))], {"x": x, "i": np.array([2, 0], "i8")}, y)
    same([node("FeatureVectorizer", ("x", "z"), inputdimensions=[3, 2])], {"x": x, "z": x[:, :2] + 1}, y)
    same([node("OneHotEncoder", cats_int64s=[3, 1, 4])], {"x": np.array([[4, 3], [9, 1]], "i8")}, y)
    coded = node("LabelEncoder", keys_int64s=[3, 1, 4], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    same([coded], {"x": np.array([4, 3, 9, 1], "i8")}, y)
    coded = node("LabelEncoder", keys_floats=[0.5, float("nan")], values_int64s=[2, 8], default_int64=-7)
    same([coded], {"x": np.array([0.5, np.nan, 1.0], f4)}, {"y": TensorProto.INT64}, version=4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes_falsenodeids": [0, 0, 0]}, "circle"),
        ({"nodes_featureids": [5, 0, 0]}, "beyond"),
        ({"nodes_modes": ["BRANCH_LIKE", "LEAF", "LEAF"]}, "BRANCH_LIKE"),
        ({"target_nodeids": [1, 9]}, "does not exist"),
        ({"nodes_truenodeids": [7, 0, 0]}, "does not have"),
        ({"nodes_values": [0.0]}, "without a value"),
        ({"post_transform": "PROBIT"}, "PROBIT"),
    ],
)
def test_trees_that_make_no_sense_are_refused(change, words):
    made = {
        "nodes_treeids": [0] * 3,
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0] * 3,
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    graph = helper.make_graph(
        [node("TreeEnsembleRegressor", **{**made, **change})],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])
    with pytest.raises(compiler.ModelError, match=words):
        compiler.load(model)


# -- support vectors -------------------------------------------------------------------------------------------------


def machine(rng, kind, kernel, counts, **more):
    """A machine with seeded vectors and coefficients; ``counts``: vectors per class."""
    total, classes = sum(counts), len(counts)
    rows = max(1, classes - 1)
    attributes = {
        "support_vectors": rng.standard_normal(total * 4).tolist(),
        "coefficients": rng.standard_normal(total * rows).tolist(),
        "rho": (rng.standard_normal(max(1, classes * (classes - 1) // 2)) / 50).tolist(),
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.4, 3.0],
    }
    if kind == "SVMRegressor":
        return node(kind, n_supports=total, **attributes, **more)
    return node(
        kind,
        outputs=("l", "y"),
        vectors_per_class=counts,
        classlabels_ints=[7 * c for c in range(classes)],
        **attributes,
        **more,
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("counts", [[3, 2], [2, 1, 4], [1, 2, 3, 2]])
def test_support_vectors_vote_for_a_class(kernel, counts):
    rng = np.random.default_rng(10 + len(counts))
    outputs = {"l": TensorProto.INT64, "y": TensorProto.FLOAT}
    same([machine(rng, "SVMClassifier", kernel, counts)], {"x": rng.standard_normal((24, 4)).astype(f4)}, outputs)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors_add_up_to_a_number(kernel, one_class):
    rng = np.random.default_rng(5)
    one = machine(rng, "SVMRegressor", kernel, [6], one_class=one_class)
    same([one], {"x": rng.standard_normal((5, 4)).astype(f4)}, {"y": TensorProto.FLOAT})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"prob_a": [1.0], "prob_b": [0.5]}, "probability=False"),
        ({"post_transform": "SOFTMAX"}, "Export it with NONE"),
        ({"kernel_type": "STRANGE"}, "offered are LINEAR"),
    ],
)
def test_support_vectors_beyond_what_is_offered_are_refused(more, words):
    one = machine(np.random.default_rng(1), "SVMClassifier", "RBF", [2, 2])
    kept = [a for a in one.attribute if a.name not in more]
    del one.attribute[:]
    one.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in more.items())])
    with pytest.raises(compiler.ModelError, match=words):
        both([one], {"x": np.zeros((2, 4), f4)}, {"l": TensorProto.INT64, "y": TensorProto.FLOAT})
