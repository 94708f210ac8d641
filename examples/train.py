"""Train a small classifier in numpy, with three workers that each see a part of the data.

python examples/train.py [LEARNING_RATE] [--die]
"""

import logging
import multiprocessing
import os
import signal
import sys

import numpy as np

import vedette

log = logging.getLogger("train")
STEPS, WORKERS, FEATURES, CLASSES = 300, 3, 20, 4


def make_data(seed: int, count: int = 600):
    """Return points around one centre per class."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(0, 1.2, (CLASSES, FEATURES))
    labels = rng.integers(0, CLASSES, count)
    return centres[labels] + rng.normal(0, 1.5, (count, FEATURES)), labels


def gradient(weights, points, labels):
    """Return loss, accuracy and gradient of a softmax regression."""
    scores = points @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels] + 1e-12).mean()
    accuracy = (scores.argmax(axis=1) == labels).mean()
    chances[rows, labels] -= 1
    return loss, accuracy, points.T @ chances / len(labels)


def worker(number: int, rate: float):
    """Train on one part of the data; whatever it logs joins the parent's run, under its own process."""
    points, labels = make_data(number + 1)
    weights = np.zeros((FEATURES, CLASSES))
    log_loss = vedette.series(f"worker {number}/loss")
    for step in vedette.track(range(STEPS), f"worker {number}"):
        loss, _, slope = gradient(weights, points, labels)
        weights -= rate * slope
        log_loss(loss, step)


def main():
    """Train in this process and in the workers."""
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
    run = vedette.init(project="demo", config={"lr": rate, "steps": STEPS, "workers": WORKERS}, tags=["numpy"])
    print(f"training as {run.name} ({run.id})")

    workers = [multiprocessing.Process(target=worker, args=(number, rate)) for number in range(WORKERS)]
    for process in workers:
        process.start()

    points, labels = make_data(seed=99, count=2000)
    test_points, test_labels = make_data(seed=100)
    weights = np.zeros((FEATURES, CLASSES))
    for step in vedette.track(range(STEPS), "training"):
        loss, accuracy, slope = gradient(weights, points, labels)
        weights -= rate * slope
        run.log({"loss": loss, "accuracy": accuracy}, step=step)
        if step % 100 == 0:
            run.mark("checkpoint", step)
            log.info("step %d: loss %.3f, accuracy %.2f", step, loss, accuracy)
        if step == STEPS // 2 and "--die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)  # what an out-of-memory killer does
    for process in workers:
        process.join()
    run.summary["test accuracy"] = float(gradient(weights, test_points, test_labels)[1])


if __name__ == "__main__":
    main()
