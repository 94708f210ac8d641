"""Explain: the true cause first, whatever noise is around it."""

import gc
import json
import random
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rooms.conftest import BORN, SECOND
from tests.rooms.staged import CONFIG, FILES, LATER, MODEL, NOISE, OTHER, PAIRS, START, TRAIN, Stage, noisy
from vedette.manifest import Entry
from vedette.query import suspects
from vedette.query.code import _blocks, _imports, _unified, code_changes, means_the_same
from vedette.query.knobs import judge
from vedette.query.outcome import diverge, outcome
from vedette.query.runs import view
from vedette.query.suspects import LITTLE, rank
from vedette.store import Points


@pytest.fixture
def stage(make):
    return Stage(make)


def first(found):
    return found.causes[0].kind, found.causes[0].key


def told(stage, pair):
    """Make a staged pair, and have it explained."""
    changed, values, _ = PAIRS[pair]
    stage.run("a", START)
    stage.run("b", values, **changed)
    return stage.explain("a", "b")


@pytest.mark.parametrize("pair", PAIRS)
def test_the_true_cause_is_first(stage, pair):
    """Of a pair that was made to differ in one thing that matters, that thing is listed first."""
    found = told(stage, pair)

    assert first(found) == PAIRS[pair][2]
    assert found.causes[0].weight >= 0.2
    assert found.causes[0].text


def test_another_order_is_caught(make):
    """The check is not passed by chance: neither in the order of the alphabet, nor of the rules, nor shuffled."""
    right = dict.fromkeys(("ours", "alphabet", "backwards", "shuffled"), 0)
    for number, pair in enumerate(PAIRS):
        stage = Stage(make)
        changed, values, truth = PAIRS[pair]
        stage.run(f"a{number}", START)
        stage.run(f"b{number}", values, **changed)
        causes = stage.explain(f"a{number}", f"b{number}").causes
        orders = {
            "ours": causes,
            "alphabet": sorted(causes, key=lambda one: one.key),
            "backwards": causes[::-1],
            "shuffled": random.Random(number).sample(causes, len(causes)),
        }
        for name, order in orders.items():
            right[name] += (order[0].kind, order[0].key) == truth

    assert right.pop("ours") == len(PAIRS)
    assert all(count < len(PAIRS) // 2 for count in right.values()), right


def test_noise_is_little(stage):
    """Names, places, hosts, workers, levels, tools, comments, tests and documents are all known as noise."""
    stage.run("a", START)
    stage.run("b", START, **NOISE)
    found = stage.explain("a", "b")

    assert len(found.causes) >= 12
    assert [one.text for one in found.causes if one.weight >= LITTLE] == []


def test_the_same_in_every_order(stage, monkeypatch):
    """The ranking does not depend on the order of the rules, nor on a second look."""
    found = told(stage, "a config key and the seed")
    monkeypatch.setattr(suspects, "RULES", suspects.RULES[::-1])

    assert stage.explain("a", "b").causes == found.causes
    assert rank.__module__ == "vedette.query.suspects"


def test_a_rule_of_one_s_own(stage, monkeypatch):
    """Another rule is a function in the list."""

    def moon(case):
        yield suspects.Suspect("environment", "moon", "full", "new", 0.99, "the moon is full in A and new in B")

    monkeypatch.setattr(suspects, "RULES", [*suspects.RULES, moon])

    assert first(told(stage, "a seed")) == ("environment", "moon")


def test_nothing_differs(stage):
    """Two runs of the same have no cause, and no metric that diverged."""
    stage.run("a", START)
    stage.run("b", START, cwd="/home/a")
    stage.run("c", START, cwd="/home/a")
    found = stage.explain("b", "c")

    assert found.causes == []
    assert [one.first_step for one in found.outcome.metrics] == [None]
    assert "nothing" in repr(found)


@pytest.mark.parametrize(
    ("config", "values", "words"),
    [({"lr": 1}, OTHER, "no seed"), ({"lr": 1, "seed": 3}, OTHER, "does not use the seed"),
     ({"lr": 1, "seed": 3}, LATER, "up to step 30")],
)  # fmt: skip
def test_chance(stage, config, values, words):
    """Where numbers differ and nothing else does, it says what chance that leaves."""
    stage.run("a", START, config=config)
    stage.run("b", values, config=config)
    found = stage.explain("a", "b")

    assert words in found.causes[0].text


def test_a_resumed_run(stage):
    """Numbers that part at a later step, after a resume: the resume is first, before the seed that never mattered."""
    stage.run("a", START)
    stage.run("b", LATER, config=CONFIG | {"seed": 9})
    stage.resume("b")

    assert first(stage.explain("a", "b")) == ("environment", "tries")


def test_the_same_numbers_at_another_speed(stage, make):
    """Where only the speed differs, what makes speed is first."""
    stage.run("a", START)
    stage.run("b", START, config=CONFIG | {"num_workers": 16, "lr": 0.1}, env={"OMP_NUM_THREADS": "4"})
    found = stage.explain("a", "b")
    assert found.causes[0].weight < LITTLE

    stage.run("c", config=CONFIG | {"num_workers": 16})
    for step, value in enumerate(START.tolist()):
        make.points("c", "other", [value], t=BORN + step * SECOND // 4)
    from vedette.store import Batch, Columns

    columns = Columns(
        "c", {}, ("loss",), [10**6 + n for n in range(50)], [BORN + n * SECOND // 4 for n in range(50)],
        list(range(50)), [(value,) for value in START.tolist()],
    )  # fmt: skip
    from tests.rooms.conftest import _origin

    make.store.keep([Batch(_origin("c"), "s", 2 * 10**6, columns=[columns])])
    found = stage.explain("a", "c")

    assert found.outcome.speed.ratio == pytest.approx(4)
    assert first(found) == ("config", "config.num_workers")
    assert "times as fast" in found.causes[0].text


def test_data_at_another_place(stage):
    """A path to data matters, unless the digests say that it is the same."""
    stage.run("a", START, config=CONFIG | {"data_dir": "/a/cifar"})
    stage.run("b", OTHER, config=CONFIG | {"data_dir": "/b/mnist"})
    stage.run("c", START, config=CONFIG | {"data_dir": "/a/cifar"}, data={})
    stage.run("d", OTHER, config=CONFIG | {"data_dir": "/b/mnist"}, data={})

    assert first(stage.explain("c", "d")) == ("config", "config.data_dir")
    known = {one.key: one.weight for one in stage.explain("a", "b").causes}
    assert known["config.data_dir"] < LITTLE


@pytest.mark.parametrize("capture", ["begun", "in part; gpus: OSError", None])
def test_what_is_not_known_is_no_difference(stage, capture):
    """Of a run that is not all on record yet, what is lacking is not held against it; it is said."""
    stage.run("a", START, capture="done")
    told = {} if capture is None else {"capture": capture}
    stage.run("b", OTHER, config=CONFIG | {"seed": 2}, machine={}, env={}, git={}, **told)
    found = stage.explain("a", "b")

    assert first(found) == ("seed", "config.seed")
    assert {one.kind for one in found.causes} <= {"seed", "environment"}
    assert found.sections.hardware == []
    assert "run B was not recorded completely" in found.sections.unread[0]


def test_code_without_its_bytes(stage):
    """Where the bytes are not here, the digest and the commit still tell."""
    stage.run("a", START)
    stage.run("b", OTHER, files=FILES | {"train.py": TRAIN + "\nprint(3)\n"}, git={"commit": "f" * 40})
    stage.blobs.clear()
    found = stage.explain("a", "b")

    assert {one.key for one in found.causes if one.kind == "code"} >= {"code.digest", "git.commit"}
    assert found.causes[0].kind == "code"
    assert found.sections.unread
    assert found.sections.code == []


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'[{"path": 1}]', b"\xff", b"[" * 100_000, b"null", b'{"a": 1}'])
def test_bytes_that_make_no_sense(stage, data):
    """A manifest or list of packages that is none counts as not here."""
    stage.run("a", START)
    digest = stage.keep(data)
    stage.make.run("b", code={"digest": digest}, packages={"digest": digest})
    found = stage.explain("a", "b")

    assert found.sections.code == []
    assert found.sections.packages == []
    assert len(found.sections.unread) == 3


def test_code_that_is_shown(stage):
    """A file that differs comes with its unified diff; a large one is cut, one of bytes has none."""
    long = "".join(f"x{n} = {n}\n" for n in range(20_000))
    files = FILES | {"data.bin": "\0old", "long.py": long}
    stage.run("a", START, files=files)
    changed = {"data.bin": "\0new", "long.py": long.replace("=", "= -"), "train.py": TRAIN.replace("1.0", "1.5")}
    stage.run("b", OTHER, files={**files, **changed, "new.py": "y = 1\n"})
    found = {one.path: one for one in stage.explain("a", "b").sections.code}

    assert "-scale = 1.0\n+scale = 1.5" in found["train.py"].diff
    assert (found["train.py"].change, found["train.py"].sort, found["train.py"].reached) == ("changed", "code", True)
    assert found["new.py"].change == "added"
    assert not found["new.py"].reached
    assert found["data.bin"].diff == ""
    assert len(found["long.py"].diff) < 50_000
    assert "more" in found["long.py"].diff


TEXT = st.lists(st.sampled_from(["a", "b", "c", "", "# d"]), max_size=40)


@given(TEXT, TEXT)
@settings(deadline=None)
def test_a_diff_can_be_applied(before, after):
    """What is shown of a file is all of its change: applied to the old text, it gives the new one."""
    blocks = _blocks(before, after)
    lines = _unified("f", before, after, blocks)
    made, at = [], 0
    for line in lines[2:]:
        if line.startswith("@@"):
            start, count = map(int, re.match(r"@@ -(\d+),(\d+)", line).groups())
            start -= count > 0
            made += before[at:start]
            at = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert before[at] == line[1:]
            made += [line[1:]] * (line[0] == " ")
            at += 1

    assert made + before[at:] == after
    assert bool(lines) == (before != after)


def test_a_tree_that_was_rewritten(stage):
    """Files of many like lines are shown in one piece rather than matched for hours."""
    old, new = "x = 1\ny = 2\n" * 20_000, "y = 2\nz = 1\n" * 20_000
    stage.run("a", START, files={"train.py": old})
    stage.run("b", OTHER, files={"train.py": new})
    [change] = stage.explain("a", "b").sections.code

    assert change.lines == 40_000
    assert "there is more" in change.diff


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (MODEL, MODEL.replace("twice", "2"), True),
        (MODEL, MODEL.replace("    # twice\n", ""), True),
        (MODEL, "\n\n" + MODEL + "\n# end\n", True),
        ('"""A."""\nx = 1\n', '"""B."""\nx = 1\n', True),
        ('def f():\n    """A."""\n    return 1\n', "def f():\n    return 1\n", True),
        ("x = f(1,2)\n", "x = f(1, 2)  # two\n", True),
        ("x = '# a'\n", "x = '# b'\n", False),
        ("x = 1\n", "x = 2\n", False),
        ("if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n", False),
        ("x = (1\n", "x = (1 # a\n", False),
        ('x = """a\n# b\n"""\n', 'x = """a\n# c\n"""\n', False),
    ],
)  # fmt: skip
def test_only_comments(before, after, same):
    """Comments, spaces and docstrings mean nothing; a string and the indent do; what cannot be read is a change."""
    assert means_the_same(before, after) is same


@pytest.mark.parametrize(
    ("key", "sort"),
    [
        ("seed", "seed"), ("training.random_state", "seed"), ("dataSeed", "seed"), ("seeds.torch", "knob"),
        ("lr", "knob"), ("optimizer.name", "knob"), ("model.name", "knob"), ("initLR", "knob"),
        ("log_prob_scale", "knob"),
        ("name", "noise"), ("run_name", "noise"), ("wandb.name", "noise"), ("output_dir", "noise"),
        ("save_path", "noise"),
        ("log_level", "noise"), ("log_every", "noise"), ("save_steps", "noise"), ("logging.level", "noise"),
        ("checkpoint_dir", "noise"), ("num_workers", "speed"), ("timestamp", "noise"), ("master_port", "noise"),
        ("data_dir", "input"), ("dataset_path", "input"), ("init_checkpoint_path", "input"), ("epochs", "length"),
        ("max_steps", "length"), ("warmup_steps", "later"), ("device", "device"), ("anything", "knob"),
    ],
)  # fmt: skip
def test_what_names_tell(key, sort):
    """A key is judged by the words in its name, and by where it stands."""
    assert judge(key, 1, 2).sort == sort


def points(values, steps=None):
    values = np.array(values, dtype=float)
    steps = np.arange(len(values)) if steps is None else np.array(steps)
    return Points(steps, steps * SECOND, values)


@pytest.mark.parametrize(
    ("a", "b", "place", "before"),
    [
        (points([1, 2, 3]), points([1, 2, 3]), None, 3),
        (points([1, 2, 3]), points([1, 2, 4]), 2, 2),
        (points([1, 2, 3]), points([1, 2 + 1e-9, 4]), 2, 2),
        (points([1, np.nan, 3]), points([1, np.nan, 3]), None, 3),
        (points([1, np.nan, 3]), points([1, 2, 3]), 1, 1),
        (points([1, np.inf, 3]), points([1, np.inf, 3]), None, 3),
        (points([1, np.inf, 3]), points([1, -np.inf, 3]), 1, 1),
        (points([0, 0]), points([0, 1e-300]), 1, 1),
        (points([1, 2, 3], [0, 10, 20]), points([1, 9, 3], [0, 5, 20]), None, 2),
        (points([1, 2, 3], [0, 10, 20]), points([9, 9], [1, 2]), None, 0),
        (points([1, 2, 7, 3], [0, 1, 1, 2]), points([1, 7, 3]), None, 3),
        (points([]), points([1]), None, 0),
    ],
)  # fmt: skip
def test_where_curves_part(a, b, place, before):
    """Two curves part where they differ by more than float noise, at a step that both have."""
    assert diverge(a, b)[:2] == (place, before)


def test_what_came_out(stage, make):
    """Each common metric has where it parted, last and best values; those of one run alone are named."""
    stage.run("a", START, cause="", state="done")
    stage.run("b", LATER, cause="out of memory", state="failed")
    make.points("a", "accuracy", [0.1, 0.9, 0.5])
    make.points("b", "accuracy", [0.1, 0.2, 0.3])
    make.points("a", "only", [1.0])
    make.points("a/1/o", "cpu_percent", [100.0, 200.0])
    found = stage.explain("a", "b").as_dict()["outcome"]
    named = {one["name"]: one for one in found["metrics"]}

    assert (named["loss"]["first_step"], named["loss"]["equal_before"]) == (30, 30)
    assert named["loss"]["first_t"] == (BORN + 30 * SECOND) / 1e6
    assert (named["accuracy"]["a_best"], named["accuracy"]["b_best"]) == (0.9, 0.3)
    assert named["accuracy"]["delta"] == pytest.approx(-0.2)
    assert [one["name"] for one in found["metrics"]] == ["accuracy", "loss"]
    assert (found["only_a"], found["only_b"]) == (["only"], [])
    assert found["end"]["b"]["cause"] == "out of memory"
    assert found["speed"]["a"] == pytest.approx(1.0)


@pytest.mark.parametrize(("lengths", "first"), [((50, 11), "b"), ((11, 50), "a"), ((50, 50), "")], ids=str)
def test_a_run_that_stopped_early(stage, make, lengths, first):
    """Of two runs that are equal at all common steps it is known which one ends first; not if they differ before."""
    for run, length in zip("ab", lengths, strict=True):
        stage.run(run)
        make.points(run, "cost", [1 / (1 + step) for step in range(length)])
        make.points(run, "noise", [float(ord(run))] * length)
    named = {one["name"]: one for one in stage.explain("a", "b").as_dict()["outcome"]["metrics"]}

    assert (named["cost"]["first_step"], named["cost"]["ends_first"]) == (None, first)
    assert (named["noise"]["first_step"], named["noise"]["ends_first"]) == (0, "")


def test_as_json(stage):
    """The whole is plain values, in the shape that pages and scripts rely on."""
    found = told(stage, "a line of code").as_dict()

    json.dumps(found)
    assert set(found) == {"a", "b", "causes", "sections", "outcome"}
    assert set(found["causes"][0]) == {"kind", "key", "a", "b", "weight", "text"}
    assert set(found["sections"]) >= {"config", "code", "packages", "hardware", "command", "data", "environment"}
    assert {"path", "change", "diff"} <= set(found["sections"]["code"][0])
    assert {"name", "a", "b"} == set(found["sections"]["packages"][0])
    assert {"key", "a", "b"} == set(found["sections"]["config"][0])
    assert {"name", "first_step", "first_t", "a_last", "b_last", "delta"} <= set(found["outcome"]["metrics"][0])


def test_as_tables(stage):
    """The causes are a DataFrame, and the whole is harmless HTML."""
    hostile = "<script>alert(1)</script>"
    stage.run("a", START, name=hostile)
    stage.run("b", OTHER, **noisy(config={hostile: hostile, "lr": 0.3}))
    found = stage.explain("a", "b")

    assert found.to_pandas()["key"].tolist() == [one.key for one in found.causes]
    assert "<script" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()
    assert "config.lr is 0.1 in A and 0.3 in B" in found._repr_html_()


def test_one_metric_at_a_time(stage, make):
    """Of many long metrics no more than one pair is held at once; speed is that of the one with most points."""
    count, metrics = 10_000, 20
    for run in "ab":
        stage.run(run)
        for n in range(metrics):
            make.points(run, f"m{n:02}", np.arange(count + (n == 3), dtype=float).tolist())
    views = view(make.store, "a"), view(make.store, "b")
    gc.collect()
    tracemalloc.start()
    try:
        found = outcome(*views)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * metrics * count * 24 / 2  # half of what all of them take: step, t and value, twice
    assert len(found.metrics) == metrics
    assert (found.speed.metric, found.speed.ratio) == ("m03", pytest.approx(1))


@pytest.mark.parametrize(
    "line",
    [
        "from pkg import (\n    model,  # the one :)\n    data as d,\n)\n",
        "from pkg import(data,\r\n  model)\r\n",
        "from pkg import data, \\\n    model\n",
        "from pkg \\\n  import data, model\n",
        "if True:\n    from .pkg import (model\n  , data)\n",
        "import numpy, pkg.model as m, pkg.data\n",
    ],
)
def test_imports_over_several_lines(line):
    """A module counts as reached however the lines of its import are broken."""
    files = {
        "train.py": line,
        "pkg/__init__.py": "",
        "pkg/model.py": "x = 1\n",
        "pkg/data.py": "",
        "pkg/no.py": "y = 1\n",
    }
    blobs = {str(n): text.encode() for n, text in enumerate([*files.values(), "x = 2\n", "y = 2\n"])}
    old = {path: Entry(path, str(n), 1, 420) for n, path in enumerate(files)}
    new = {**old, "pkg/model.py": Entry("pkg/model.py", "5", 1, 420), "pkg/no.py": Entry("pkg/no.py", "6", 1, 420)}
    found = {one.path: one.reached for one in code_changes(old, new, blobs.get, ["python", "train.py"])}
    assert found == {"pkg/model.py": True, "pkg/no.py": False}


def test_imports_that_never_end():
    """A text of nothing but imports that are never closed is read in no time to speak of, and means their packages."""
    assert set(_imports("from a.b import (\n" * 20_000)) == {("a.b", 0)}
