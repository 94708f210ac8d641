"""Numbers from what a command prints."""

import io
import math

import pytest
from tqdm import tqdm

from vedette.errors import VedetteError
from vedette.launch.metrics import Metrics, compiled
from vedette.launch.record import Recorder
from vedette.sources.bars import Bars


class Taken:
    """What was logged and said of some output."""

    def __init__(self, *patterns, logs_itself=False):
        self.points, self.said = {}, []
        metrics = Metrics(self.log, lambda *said: self.said.append(said[1]), patterns, lambda: logs_itself)
        self.metrics = metrics
        self.recorder = Recorder(lambda *_: None, Bars(None, metrics.bar), on_line=metrics.line)

    def log(self, values, step):
        for name, value in values.items():
            self.points.setdefault(name, []).append((step, value))

    def of(self, text):
        self.recorder.take("stdout", text.encode())
        self.recorder.close()
        self.metrics.close()
        return self.points


def drawn(epochs=3):
    """Return what tqdm draws in a loop that trains and validates."""
    out = io.StringIO()
    options = {"file": out, "mininterval": 0, "ncols": 80}
    for epoch in range(epochs):
        train = tqdm(range(20), desc=f"epoch {epoch}", **options)
        for n in train:
            train.set_postfix(loss=100 * epoch + n, note="x")
        val = tqdm(total=5, desc="val", **options)
        for n in range(5):
            val.update()
            val.set_postfix(loss=-n)
        val.close()
    return out.getvalue()


def test_the_postfix_of_tqdm():
    """Its numbers are series, the bar's position is the step, epochs follow each other, and two bars are two series.

    The last numbers of a bar are a point at its last iteration, however early tqdm has drawn them first.
    """
    points = Taken().of(drawn())
    assert points["loss"] == [(20 * epoch + n, 100 * epoch + n) for epoch in range(3) for n in range(20)]
    line = "{}%|#####| {}/50 [00:01<00:01, 5.00it/s, loss={}]\n"
    late = "".join(line.format(2 * n, n, value) for n, value in ((0, 1), (20, 2), (40, 3), (50, 3)))
    assert Taken().of(late)["loss"] == [(0, 1), (20, 2), (40, 3), (49, 3)]
    assert points["val/loss"] == [(5 * epoch + n + 1, -n) for epoch in range(3) for n in range(5)]
    assert set(points) == {"loss", "val/loss"}


def iterate(bar, refresh=True):
    for n in bar:
        bar.set_postfix(turn=n, refresh=refresh)


def iterate_quietly(bar):
    iterate(bar, refresh=False)


def count_then_show(bar):
    for n in bar.iterable:
        bar.update(1)
        bar.set_postfix(turn=n)
    bar.close()


def show_then_count(bar):
    for n in bar.iterable:
        bar.set_postfix(turn=n)
        bar.update(1)
    bar.close()


@pytest.mark.parametrize("options", [{}, {"miniters": 10, "mininterval": 0}, {"mininterval": 0}])
@pytest.mark.parametrize("loop", [iterate, iterate_quietly, count_then_show, show_then_count])
def test_fast_loops(loop, options):
    """A number belongs to its step or the one before, however often tqdm counts; the last one is of the last turn."""
    out = io.StringIO()
    for _ in range(2):
        loop(tqdm(range(200), file=out, ncols=80, **options))
    points = Taken().of(out.getvalue())["turn"]

    assert {(at - turn) % 200 for at, turn in points} <= {0, 1}
    assert [at for at, _ in points] == sorted({at for at, _ in points})
    assert [turn for _, turn in points].count(199) == 2


def test_a_loop_that_tqdm_counts_now_and_then():
    """The first number is at step 0, and of those that are drawn at one position the first is its number."""
    out = io.StringIO()
    iterate(tqdm(range(30), file=out, ncols=80, miniters=10, mininterval=0))
    assert Taken().of(out.getvalue())["turn"] == [(0, 0), (10, 9), (20, 19), (29, 29)]


@pytest.mark.parametrize("note", [{"lo[ss]": 1.5}, {"note": "a]b"}, {"note": "a[b"}, {"x": [1, [2]]}, {"m[0][1]": 3}])
@pytest.mark.parametrize("total", [10, None])
def test_a_postfix_with_brackets(note, total):
    """The bar is followed, and its readable numbers are taken."""
    out = io.StringIO()
    bar = tqdm(total=total, file=out, ncols=100, mininterval=0)
    for n in range(10):
        bar.update()
        bar.set_postfix({**note, "acc": n})
    bar.close()
    assert Taken().of(out.getvalue()) == {"acc": [(n + 1, n) for n in range(10)]}


def test_a_postfix_with_decimal_commas():
    """What tqdm shows of another language's number is no number; its neighbours are."""
    out = io.StringIO()
    bar = tqdm(total=2, file=out, ncols=80, mininterval=0)
    bar.set_postfix_str("loss=1,5, acc=0.5")
    bar.close()
    assert Taken().of(out.getvalue()) == {"acc": [(0, 0.5)]}


def test_hundreds_of_epochs():
    """A bar for each epoch is followed, however many there are."""
    line = "epoch {}: {}%|#####| {}/2 [00:01<00:01, 5.00it/s, loss={}]\n"
    text = "".join(line.format(epoch, 50 * n, n, epoch + n) for epoch in range(150) for n in (1, 2))
    assert Taken().of(text)["loss"] == [(2 * epoch + n, epoch + n) for epoch in range(150) for n in (1, 2)]


def test_hundreds_of_bars():
    """Each of many bars with names of their own is logged; from a number of names on they are not, and that is said."""

    def file(n):
        return "".join(chr(97 + int(digit)) for digit in str(n))

    line = "{}: 100%|#####| 2/2 [00:01<00:00, 5.00it/s, loss={}]\n"
    taken = Taken()
    points = taken.of("".join(line.format(file(n), n) for n in range(400)))
    assert [points[f"{file(n)}/loss" if n else "loss"] for n in range(400)] == [[(2, n)] for n in range(400)]
    assert taken.said == []
    taken = Taken()
    points = taken.of("".join(line.format(file(n), n) for n in range(2500)))
    assert len(points) == 500
    assert [said.partition(", and")[0] for said in taken.said] == [f"the number '{file(500)}/loss'"]
    assert len(taken.metrics._descs) <= 1000


def test_bars_at_the_same_time():
    """Bars that are drawn in turn are series of their own."""
    line = "worker {}:  50%|#####     | {}/10 [00:01<00:01, 5.00it/s, loss={}]\n"
    points = Taken().of("".join(line.format(who, n, 10 * who + n) for n in range(1, 6) for who in (1, 2)))
    assert {"worker 1/loss": 15.0, "worker 2/loss": 25.0}.items() <= {k: v[-1][1] for k, v in points.items()}.items()
    assert [step for step, _ in points["worker 1/loss"]] == sorted(step for step, _ in points["worker 1/loss"])


def test_a_program_that_logs_itself():
    """The numbers of its bars are left alone: they are its own already, under steps of its own."""
    assert Taken(logs_itself=True).of(drawn(1)) == {}


@pytest.mark.parametrize(
    ("pattern", "points"),
    [
        (r"loss[=: ]+([0-9.e+-]+)", {"loss": [(10, 0.5), (20, 0.25)]}),
        (r"loss=(?P<train>\S+)", {"train": [(10, 0.5), (20, 0.25)]}),
        (r"(?P<name>\w+)=(?P<value>\S+)", {"loss": [(10, 0.5), (20, 0.25)], "acc": [(10, 0.9), (20, math.inf)]}),
        (r"loss=(\S+) acc=(\S+)", {"loss": [(10, 0.5), (20, 0.25)], "acc": [(10, 0.9), (20, math.inf)]}),
        (r"loss=(?P<loss>\S+) .* t(?P<step>\d+)", {"loss": [(1, 0.5), (2, 0.25)]}),
        ("auto", {"loss": [(10, 0.5), (20, 0.25)], "acc": [(10, 0.9), (20, math.inf)]}),
        (r"acc=(0\S*)", {"acc": [(10, 0.9)]}),
        (r"(\w+)=none", {}),
    ],
)
def test_patterns(pattern, points):
    """The name is that of the group, or the word before the number; the step is the line's."""
    assert Taken(pattern).of("step 10: loss=0.5 acc=0.9 t1\nstep 20: loss=0.25 acc=inf t2\nx=none\n") == points


def test_a_negative_step_is_none():
    """Lines are counted, whether the line names it or a group finds it."""
    text = "at=-7 loss=1\nat=-7 loss=2\n"
    assert Taken(r"at=(?P<step>\S+) loss=(?P<loss>\S+)").of(text) == {"loss": [(0, 1.0), (1, 2.0)]}
    assert Taken("auto").of(text.replace("at", "step")) == {"loss": [(0, 1.0), (1, 2.0)]}


def test_steps_that_no_line_names():
    """They are counted, for each series; a name that a bar has, too, is another series in lines."""
    text = "loss=3\nacc=1\nloss=2\ntrain: 50%|#####     | 5/10 [00:01<00:01, 5.00it/s, acc=7]\n"
    assert Taken("auto").of(text) == {"loss": [(0, 3.0), (1, 2.0)], "acc": [(0, 1.0)], "train/acc": [(5, 7.0)]}


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [("(x", "is not a regular expression"), ("x", "has no group"), ("(?P<name>x)", "go together")],
)
def test_patterns_that_cannot_be_used(pattern, sentence):
    """They are refused in a sentence."""
    with pytest.raises(VedetteError, match=sentence):
        compiled(["auto", pattern])


def test_a_line_of_megabytes():
    """Only its beginning is searched, so it does not use up the time of the patterns, and later lines are searched."""
    taken = Taken(r"(?P<name>\w+)=(?P<value>\S+)")
    text = f"first=1 {'x' * 5_000_000} last=1\n" + "loss=1\n" * 20
    for at in range(0, len(text), 1 << 16):
        taken.recorder.take("stdout", text[at : at + (1 << 16)].encode())
    assert taken.of("") == {"first": [(0, 1.0)], "loss": [(n, 1.0) for n in range(20)]}
    assert taken.said == []


def test_a_pattern_that_takes_for_ever():
    """It is broken off and given up in words; the others, and the output, go on."""
    taken = Taken(r"(?:a+)+=(\d)", r"loss=(\d)")
    points = taken.of(f"{'a' * 200}\nloss=1\n{'a' * 200}\nloss=2\n")  # without a limit: longer than the sun shines
    assert points == {"loss": [(0, 1.0), (1, 2.0)]}
    assert [said for said in taken.said if "gave it up" in said] != []
