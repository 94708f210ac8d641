"""Numbers in printed text."""

import math

import pytest

from vedette.sources.numbers import Steps, name_before, pairs, step


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss=0.312, acc=0.9", {"loss": 0.312, "acc": 0.9}),
        ("step 5 | loss: 1.2e-3 - val/acc: 91.5%", {"loss": 0.0012, "val/acc": 91.5}),
        ("lr=1E-4 x=-.5 y=+3. z = 7.", {"lr": 1e-4, "x": -0.5, "y": 3, "z": 7}),
        ("epoch=3 Step: 4 iters=5 loss=1", {"loss": 1}),
        ("took=3.2s at 12:30:45 http://host:8080 v=1.2.3 path=/a/b=3x id=0x1f n=5/10", {}),
        ("loss=information name=none", {}),
        ("loss: 1,234.5 n=12,345 date: 2026-11-18 day=18-Nov range: 1-5 share: 5%-10% z=1+2j at=1,-2 loss=1,5", {}),
        ("loss=1,acc=2, n: 3 - m: 4", {"loss": 1, "acc": 2, "n": 3, "m": 4}),
        ("{'a': 1,'b': 2}", {"a": 1, "b": 2}),
        # As PyTorch's examples, Keras, scikit-learn, transformers and XGBoost print them.
        ("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300039", {"Loss": 2.300039}),
        ("63/63 - 1s - 20ms/step - accuracy: 0.5130 - loss: 1.2", {"accuracy": 0.513, "loss": 1.2}),
        ("Iteration 12, loss = 0.31", {"loss": 0.31}),
        (
            "{'loss': 0.5, 'grad_norm': '1.2', 'learning_rate': 5e-05, 'epoch': 0.1}",
            {"loss": 0.5, "grad_norm": 1.2, "learning_rate": 5e-05},
        ),
        ("[10]\ttrain-rmse:0.48\teval-rmse:0.50", {"train-rmse": 0.48, "eval-rmse": 0.5}),
    ],
)
def test_pairs(text, found):
    """Each name with a number is found; units, times, dates, ranges, decimal commas, versions and steps are none."""
    assert dict(pairs(text)) == found


def test_what_is_not_finite():
    """A loss that is not a number any more is what one wants to see."""
    found = dict(pairs("loss=nan grad=inf low=-inf"))
    assert math.isnan(found["loss"])
    assert (found["grad"], found["low"]) == (math.inf, -math.inf)


@pytest.mark.parametrize(
    ("text", "said"),
    [("step=5 loss=1", 5), ("Epoch [3/10], Step [50/100], loss=1", 50), ("epoch 3: loss=1", 3), ("Iteration #7", 7),
     ("global_step: 12 step: 3", 12), ("loss=1 after 100 steps", None),
     ("[10]\teval-rmse:0.5", 10), ("'epoch': 0.1", None), ("stepsize 3 epochal 4", None),
     ("step 12,345 loss=1", None), ("epoch 2026-11-18", None), ("step,5,0.3", 5), ("epoch=3,loss=1", 3),
     ("step=-5 loss=1", None), ("Step: -5", None), ("step -5, epoch 2", 2), ("epoch-3 step - 5", 5), ("epoch-3", 3)],
)  # fmt: skip
def test_the_step_of_a_line(text, said):
    """A line names its step, iteration or epoch; the finer one counts."""
    assert step(text) == said


def test_a_series_never_goes_back():
    """Steps are counted where none is said, and go on where the program begins anew."""
    steps = Steps()
    assert [steps.at("a", said) for said in (None, None, 7, 8, None, 1, 2, 0)] == [0, 1, 7, 8, 9, 10, 11, 12]
    assert steps.at("b", None) == 0


def test_the_name_before_a_number():
    """It is the last word."""
    assert [name_before(text) for text in ("epoch 3, val_loss: ", "loss", "  = ", "3 4 ")] == [
        "val_loss",
        "loss",
        "",
        "",
    ]
