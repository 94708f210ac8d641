"""What a tree has used, by made-up looks at it: each tick once, whoever has ended."""

import random

import pytest

from vedette.sources.process.ledger import Account, Ledger

ROOT, CHILD, GRANDCHILD = (1, 1), (2, 2), (3, 3)


def account(own=0, waited=0, parent=ROOT, faults=(1, 0), moved=(0, 0)):
    return Account(parent, (own, 0, faults[0]), (waited, 0, faults[1]), moved)


def root(own=0, waited=0, **told):
    return account(own, waited, None, **told)


def ticks(*looks):
    """Return what a ledger says after each of these looks."""
    ledger = Ledger()
    return [ledger.take(look).ticks for look in looks]


def test_a_parent_takes_over():
    """What a child had is counted with its parent from then on, with what it did after it was last seen."""
    looks = {ROOT: root(5), CHILD: account(10)}, {ROOT: root(5, 13, faults=(1, 1))}
    assert ticks(*looks) == [15, 18]


def test_a_child_that_was_never_seen():
    """It is known by its parent alone."""
    assert ticks({ROOT: root(5)}, {ROOT: root(5, 7, faults=(1, 1))}) == [5, 12]


def test_nobody_takes_over():
    """Where no parent grew, what was seen stays for good."""
    looks = {ROOT: root(5), CHILD: account(10)}, {ROOT: root(6)}, {ROOT: root(7)}, {ROOT: root(8)}
    assert ticks(*looks) == [15, 16, 17, 18]


def test_a_child_that_ends_between_two_reads_of_one_look():
    """The parent was read before it had taken over: it tells at the next look, and nothing is counted twice."""
    looks = {ROOT: root(5), CHILD: account(10)}, {ROOT: root(5)}, {ROOT: root(5, 12, faults=(1, 1))}
    assert ticks(*looks) == [15, 15, 17]


def test_a_whole_branch_that_ends():
    """A grandchild goes to the child, and both to the root; or the grandchild is an orphan, and is kept."""
    first = {ROOT: root(0), CHILD: account(10, faults=(5, 0)), GRANDCHILD: account(20, parent=CHILD, faults=(7, 0))}
    assert ticks(first, {ROOT: root(0, 33, faults=(1, 12))}) == [30, 33]
    assert ticks(first, {ROOT: root(0, 10, faults=(1, 5))}, {ROOT: root(1, 10, faults=(1, 5))}) == [30, 30, 31]


def test_an_orphan_that_went_to_one_further_up():
    """Who adopts it, as a subreaper does, takes over; that need not be its parent's parent."""
    middle = (9, 9)
    first = {
        ROOT: root(0), middle: account(0), CHILD: account(10, parent=middle), GRANDCHILD: account(20, parent=CHILD),
    }  # fmt: skip
    then = {ROOT: root(0, 21, faults=(1, 1)), middle: account(0, 11, faults=(1, 1))}
    assert ticks(first, then, then) == [30, 32, 32]


def test_the_root_ends():
    """What it had stays, and those below it go on."""
    orphan = account(10, parent=None)
    assert ticks({ROOT: root(5, 3), CHILD: account(10)}, {CHILD: orphan}, {}, {}) == [18, 18, 18, 18]


def test_a_pid_that_is_used_again():
    """The new process is added to what the old one had."""
    looks = {ROOT: root(), (2, 2): account(10)}, {ROOT: root(), (2, 8): account(1)}, {ROOT: root(), (2, 8): account(2)}
    assert ticks(*looks) == [10, 11, 12]


def test_bytes_go_where_the_process_goes():
    """A parent's bytes have in them those of whom it waited for; of others what was seen is kept."""
    ledger = Ledger()
    ledger.take({ROOT: root(moved=(1, 1)), CHILD: account(moved=(100, 200))})
    assert ledger.take({ROOT: root(faults=(1, 1), moved=(150, 201))})[1:] == (150, 201)
    ledger = Ledger()
    ledger.take({ROOT: root(moved=(1, 1)), CHILD: account(moved=(100, 200))})
    assert ledger.take({ROOT: root(moved=(2, 3))})[1:] == (102, 203)


class Kernel:
    """Processes with exact times, of which whole ticks are shown: what the real one does."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.living = {(1, 0): None}  # parents
        self.times = {(1, 0): [0.0, 0.0]}  # own and waited, in ticks
        self.lost, self.lost_count = 0.0, 0
        self.n = 1

    def step(self):
        key = self.random.choice(list(self.living))
        act = self.random.random()
        if act < 0.3 and len(self.living) < 12:
            self.n += 1
            new = self.random.randrange(2, 20), self.n  # pids come again
            if all(new[0] != pid for pid, _ in self.living):
                self.living[new], self.times[new] = key, [0.0, 0.0]
        elif act < 0.5 and key != (1, 0):
            self.end(key)
        else:
            self.times[key][0] += self.random.random() * 3

    def end(self, key):
        parent = self.living.pop(key)
        own, waited = self.times.pop(key)
        for child in [child for child, above in self.living.items() if above == key]:
            self.living[child] = None  # adopted from outside
        if parent is None:
            self.lost += own + waited
            self.lost_count += 1
        else:
            self.times[parent][1] += own + waited

    def show(self):
        return {
            key: Account(
                parent, (int(self.times[key][0]), 0, 1), (int(self.times[key][1]), 0, self.faults(key)), (0, 0)
            )
            for key, parent in self.living.items()
        }

    def faults(self, key):
        return int(self.times[key][1] * 1000)

    def truth(self):
        return sum(map(sum, self.times.values())) + self.lost


@pytest.mark.parametrize("seed", range(30))
def test_trees_that_come_and_go(seed):
    """Whatever a tree does between two looks, the count never falls, never runs ahead, and lags by what it must.

    It must by what orphans did after they were last seen, and by the rounding of those that live: it is looked at after
    each event here, so that the first is nothing.
    """
    kernel, ledger, before = Kernel(seed), Ledger(), 0.0
    for _ in range(400):
        kernel.step()
        found = ledger.take(kernel.show()).ticks
        assert found >= before
        before = found
    slack = 2 * (len(kernel.living) + kernel.lost_count)
    assert kernel.truth() - slack <= found <= kernel.truth() + 0.001
