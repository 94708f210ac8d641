"""What a user hands over: numbers of any library, and values of any kind, however badly they behave."""

import argparse
import enum
import json
import math
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.rooms.conftest import python
from vedette.client import asked
from vedette.client.values import encode_sample, numbers_in, plain, to_number


class Tensor:
    """What torch and jax have in common: one element, handed over by item()."""

    def __init__(self, *values):
        self.values = values

    def item(self):
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with many elements cannot be converted to Scalar")
        return self.values[0]

    def __float__(self):
        return float(self.item())

    def __repr__(self):
        return f"tensor({list(self.values)})"


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"


class Celsius(float):
    pass


class Counter(int):
    pass


class BrokenFloat:
    def __float__(self):
        raise ZeroDivisionError


class BrokenText:
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class BrokenAttributes:
    """A proxy to something that is not there: touching it fails, and not with an AttributeError."""

    def __getattr__(self, name):
        raise RuntimeError("outside of a context")


class BrokenString(str):
    __slots__ = ()

    def __str__(self):
        raise ValueError("no text")


class BrokenMapping(dict):
    def items(self):
        raise RuntimeError("gone")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1),
        (1.5, 1.5),
        (True, True),
        (2**53 + 1, 2**53 + 1),
        (-(2**63), -(2**63)),
        (np.float64(1.5), 1.5),
        (np.float32(1.5), 1.5),
        (np.float16(1.5), 1.5),
        (np.longdouble(1.5), 1.5),
        (np.int64(2**53 + 1), 2**53 + 1),
        (np.uint8(255), 255),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (np.array(7), 7),
        (np.array([2.5]), 2.5),
        (Tensor(0.25), 0.25),
        (Tensor(3), 3),
        (Tensor(False), False),
        (Decimal("1.5"), 1.5),
        (Fraction(1, 4), 0.25),
        (Level.LOW, 1),
        (Celsius(36.6), 36.6),
        (Counter(5), 5),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (np.float32("inf"), math.inf),
        (2**63, float(2**63)),
        (2**64, float(2**64)),
        (-(2**70), -float(2**70)),
        (10**400, math.inf),
        (-(10**400), -math.inf),
    ],
    ids=lambda value: f"{type(value).__name__} {value!r:.25}",
)
def test_numbers(value, number):
    """A scalar of any library is the Python number that it holds, of its own type; past 64 bits it is a float."""
    found = to_number(value)

    assert (type(number), number) == (type(found), found)


@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), np.array(math.nan), Tensor(math.nan), Decimal("nan")])
def test_nan_is_a_number(value):
    """NaN is what a user wants to see: it is kept."""
    assert math.isnan(to_number(value))


@pytest.mark.parametrize(
    "value",
    [
        None, "1.5", "", b"1", [1], (1,), {1}, object(), int, np.float32, 1j, np.complex64(1), np.array([1, 2]),
        np.array([]), np.array("text"), np.datetime64("2026-11-01"), np.str_("1"), Tensor(1, 2), Tensor("x"),
        Colour.RED, BrokenFloat(), BrokenText(), BrokenAttributes(), Decimal("sNaN"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_number(value):
    """What holds no single number is turned away; it comes out of numbers_in as None, with its name."""
    with pytest.raises(Exception):  # noqa: B017 - whatever the value's own methods raise
        to_number(value)

    assert list(numbers_in({"x": value})) == [("x", None)]


def test_nested_names_are_joined():
    """Dicts in dicts become names with slashes, in order, and other keys than text are named by their text."""
    values = {"loss": 1.0, "val": {"acc": 0.5, "deep": {"er": 2}}, 3: 4, ("a", 1): 5, "bad": "x"}

    assert list(numbers_in(values)) == [
        ("loss", 1.0), ("val/acc", 0.5), ("val/deep/er", 2), ("3", 4), ("('a', 1)", 5), ("bad", None),
    ]  # fmt: skip


@pytest.mark.parametrize("wrap", [dict, OrderedDict, UserDict, MappingProxyType])
def test_any_mapping_will_do(wrap):
    """Whatever is a mapping is read as one."""
    assert list(numbers_in(wrap({"a": wrap({"b": 1})}))) == [("a/b", 1)]
    assert plain(wrap({"a": wrap({"b": 1})})) == {"a": {"b": 1}}


def test_a_dict_that_holds_itself_has_an_end():
    """A dict that holds itself once is read to some depth, and what is beside it is found."""
    values: dict[str, Any] = {"loss": 1.0}
    values["me"] = values

    assert ("loss", 1.0) in list(numbers_in(values))
    assert plain(values)["loss"] == 1.0


@pytest.mark.parametrize("reads", ["list(numbers_in(graph))", "plain(graph)"])
def test_things_that_hold_each_other_cost_no_time(reads):
    """Objects that refer to each other many times over, as a model's parts do, are read in a moment."""
    code = f"""
from vedette.client.values import numbers_in, plain
nodes = [{{}} for _ in range(12)]
for node in nodes:
    node.update({{str(i): other for i, other in enumerate(nodes)}}, loss=1.0)
graph = nodes[0]
{reads}
"""
    assert python(code, timeout=100).returncode == 0


@dataclass
class Inner:
    depth: int = 3


@dataclass
class Options:
    lr: float = 0.1
    inner: Inner = field(default_factory=Inner)
    names: tuple[str, ...] = ("a",)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (2**63, str(2**63)),
        (0.5, 0.5),
        ("text", "text"),
        ("", ""),
        ({}, {}),
        ([], []),
        ({"a": [1, (2, {"b": 3})]}, {"a": [1, [2, {"b": 3}]]}),
        ({1: 2, None: 3, (1, 2): 4}, {"1": 2, "None": 3, "(1, 2)": 4}),
        (Options(), {"lr": 0.1, "inner": {"depth": 3}, "names": ["a"]}),
        (argparse.Namespace(lr=0.1, inner=Inner()), {"lr": 0.1, "inner": {"depth": 3}}),
        (np.float32(0.5), 0.5),
        (np.array(3), 3),
        (np.array([1, 2]), "[1 2]"),
        (Tensor(1), 1),
        (Tensor(1, 2), "tensor([1, 2])"),
        (Decimal("1.5"), 1.5),
        (Level.LOW, 1),
        (Colour.RED, "Colour.RED"),
        (Options, str(Options)),
        (b"x", "b'x'"),
        (BrokenText(), "<BrokenText>"),
        ("\ud800x", "?x"),
        ({"\udcff": 1}, {"?": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values(value, kept):
    """A value is kept as itself, as its parts, or as a last resort as its text."""
    assert kept == plain(value)


def test_sets_are_lists():
    """A set is kept as a list of its members."""
    assert sorted(plain({1, 2, 3})) == [1, 2, 3]
    assert plain(frozenset([1])) == [1]


@pytest.mark.parametrize(
    "value",
    [
        BrokenAttributes(),
        BrokenText(),
        BrokenFloat(),
        BrokenString("x"),
        BrokenMapping(a=1),
        {BrokenText(): 1},
        {BrokenString("x"): 1},
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_takes_the_others_with_it(value):
    """However badly one value behaves, plain() raises nothing, and what stands beside it is kept."""
    assert plain({"bad": value, "lr": 0.1})["lr"] == 0.1


def test_long_text_is_cut():
    """A text of megabytes is kept by its beginning."""
    assert len(plain("x" * 1_000_000)) == 10_000


@pytest.mark.parametrize(
    "value",
    [{"a": [1, None, "x", {"b": math.nan}]}, Options(), 10**30, "\ud800", np.arange(3), BrokenText(), Level.LOW],
)
def test_what_is_plain_can_be_written(value):
    """All that plain() returns goes through the wire and comes back the same."""
    kept = plain(value)

    assert repr(kept) == repr(msgspec.msgpack.decode(msgspec.msgpack.encode(kept)))


def test_samples_are_written_by_their_own_type():
    """An int stays an int on the wire, a bool a bool, and a scalar of numpy is what it holds."""
    written = encode_sample(
        (1, 2, {"i": 2**53 + 1, "b": True, "f": np.float32(0.5), "d": Decimal("1.5"), "t": Tensor(3)})
    )

    assert msgspec.msgpack.decode(written) == [1, 2, {"i": 2**53 + 1, "b": True, "f": 0.5, "d": 1.5, "t": 3}]


LOG = """
import vedette
run = vedette.init(name="values", config={config})
{code}
run.finish()
[view] = vedette.runs()
print({{row.name: row.last for row in view.series()}}, view.config)
"""


def logged(home, code, config=None):
    done = python(LOG.format(code=code, config=config or {}))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_bad_name_costs_no_other_value(home, hub):
    """A name that no text can be made of is put right or turned away; what was logged beside it is kept."""
    assert "'loss': 2.0" in logged(home, "run.log({'\\ud800': 1.0, 'loss': 2.0})")


def test_one_bad_step_costs_no_value(home, hub):
    """A step that no integer can hold is put right; its value, and what comes after it without a step, is kept."""
    found = logged(home, "run.log({'a': 1.0}, step=2**80); run.log({'b': 2.0}); run.log({'c': 3.0}, step='x')")

    assert found == "{'a': 1.0, 'b': 2.0, 'c': 3.0} {}"


def test_a_value_that_was_asked_for_and_is_taken_out(home, hub, monkeypatch):
    """What `pop` and `popitem` return to the program is what it used, so it is config; what it did not read is none."""
    monkeypatch.setenv(asked.VARIABLE, json.dumps({"lr": 0.3, "idle": 1, "last": 2}))
    code = "assert (run.config.pop('lr', 0.1), run.config.pop('x', 7), run.config.popitem()) == (0.3, 7, ('last', 2))"

    assert logged(home, code) == "{} {'last': 2, 'lr': 0.3}"


def test_the_number_is_the_same_by_every_verb(home, hub):
    """log, metric and a handle keep the same number; log and metric keep its type."""
    found = logged(
        home,
        "run.log({'log': 2**53 + 1}); run.metric('metric', 2**53 + 1); run.series('handle')(1.5);"
        "run.log({'mixed': 2**53 + 1, 'x': None})",
    )

    assert found == f"{{'handle': 1.5, 'log': {2**53 + 1}, 'metric': {2**53 + 1}, 'mixed': {2**53 + 1}}} {{}}"


def test_a_handle_counts_by_itself(home, hub):
    """A handle counts its own steps and leaves the run's count alone: with tags, without, and where a segment ends."""
    code = """
import vedette
for tags, count in ((None, 4), ({"sensor": "a"}, 4), (None, 5000)):
    run = vedette.init()
    run.log({"before": 1})
    handle = run.series("x", tags)
    for _ in range(count):
        handle(1.0)
    handle(1.0, 9000), handle(1.0)
    run.log({"after": 1})
    run.finish()
    view = vedette.get(run.id)
    print(view.history("x").step[[0, 1, -2, -1]].tolist(), view.history("after").step.tolist())
"""

    assert python(code).stdout.splitlines() == ["[1, 2, 9000, 9001] [1]"] * 3


def test_a_series_never_goes_back_by_itself(home, hub):
    """Steps that are not given grow, whatever other series, smaller steps, bad steps or handles are logged."""
    code = """
import vedette
run = vedette.init()
for _ in range(3): run.log({"b": 1})
run.log({"val": 1}, step=0)
for _ in range(2): run.log({"b": 1})
run.metric("val", 1, step=1)
run.log({"val": 1}, step="x"), run.log({"val": 1}, step=2**70), run.log({"val": 1}, step=1e300)
run.log({"b": 1})
handle, tagged = run.series("b"), run.series("b", {"k": "v"})
handle(1), handle(1, 1), handle(1), handle(1, 2**70), handle(1, float("inf")), run.series("b")(1)
tagged(1), tagged(1, 1), tagged(1), tagged(1, "x")
run.log({"b": 1}), run.metric("b", 1)
run.finish()
view = vedette.get(run.id)
print(view.history("b").step.tolist(), view.history("b", tags={"k": "v"}).step.tolist())
"""
    plain, tagged = python(code).stdout.replace("] [", "]|[").split("|")

    assert json.loads(plain) == [0, 1, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15]  # 1 was given once more
    assert json.loads(tagged) == [1, 9, 10, 11]


TURNS = {  # what is logged in turn, and at which steps
    "log after a handle": ("h(1), h(2), log(3), log(4), log(5), h(6)", [0, 1, 2, 3, 4, 5]),
    "metric after a handle": ("h(1), metric(2), h(3), metric(4)", [0, 1, 2, 3]),
    "a step given to log": ("h(1), log(2, 100), h(3), log(4)", [0, 100, 101, 102]),
    "a step given to metric": ("h(1), metric(2, 100), h(3)", [0, 100, 101]),
    "a smaller one": ("log(1, 100), h(2), log(3, 7), h(4)", [100, 101, 7, 102]),
    "given before the handle counts": ("h(1, 5), log(2, 100), h(3), h(4)", [5, 100, 101, 102]),
    "of another series": ("h(1), other(100), h(2), log(3, 7), h(4)", [0, 1, 7, 8]),
    "of no integer type": ("h(1), h(2, 50.0), h(3), log(4, 90.0), h(5)", [0, 50, 51, 90, 91]),
    "a bad one of a handle": ("log(1, 100), h(2, 'x'), h(3), log(4)", [100, 101, 102, 103]),
    "given to the handle": ("h(1), h(2, 100), log(3), h(4)", [0, 100, 101, 102]),
}


@pytest.mark.parametrize("tags", [None, {"k": "v"}], ids=["plain", "tagged"])
def test_a_handle_goes_on_after_what_others_logged(home, hub, tags):
    """A handle, `log` and `metric` of one series continue each other's steps, given or not; other tags count apart."""
    code = f"""
import vedette
for turns in {[turns for turns, _ in TURNS.values()]}:
    run = vedette.init()
    h = run.series("x", {tags})
    def metric(value, step=None): run.metric("x", value, {tags}, step)
    def log(value, step=None): metric(value, step) if {tags} else run.log({{"x": value}}, step)
    def other(step): run.log({{"y": 1}}, step), run.metric("x", 1, {{"k": "w"}}, step)
    eval(turns)
    run.finish()
    points = vedette.get(run.id).history("x", tags={tags or {}})
    print(points.step[points.value.argsort()].tolist())
"""
    done = python(code)
    found = [json.loads(line) for line in done.stdout.splitlines()]

    assert dict(zip(TURNS, found, strict=True)) == {case: steps for case, (_, steps) in TURNS.items()}, done.stderr
