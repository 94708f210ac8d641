"""Run the tests as `scripts/test` does: pytest, and then in the last lines what it cost and who failed once.

    python -m tests [arguments of pytest]

Under CI up to three tests that failed beside all the others are tried once more, alone. One that then passes is named
all the same: whoever sees its name mends the test, or the race that it found.
"""

import ctypes
import json
import os
import resource
import sys
import time
from typing import NamedTuple

import pytest

_PR_SET_CHILD_SUBREAPER = 36
_MOST_AGAIN = 3
_LEFT_S = 1.0  # for those who are on their way out when pytest has ended


class Counted(NamedTuple):
    """What came of a run of pytest."""

    code: int
    passed: int
    skipped: int
    failed: list[str]  # by their names


class Counter:
    """A plugin that counts, also what the workers of pytest-xdist report."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a test, or of what was done before or after it."""
        name = report.nodeid.removesuffix("@" + report.nodeid.partition("::")[0])  # xdist adds the group: its file
        if report.failed or (name not in self.outcomes and (report.when == "call" or report.skipped)):
            self.outcomes[name] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of a file that cannot be read."""
        if report.failed:
            self.outcomes[report.nodeid] = report.outcome

    def count(self, code: int) -> Counted:
        """Add up."""
        names = {way: [name for name, found in self.outcomes.items() if found == way] for way in self.outcomes.values()}
        return Counted(code, len(names.get("passed", ())), len(names.get("skipped", ())), names.get("failed", []))


def run(arguments: list[str]) -> Counted:
    """Run pytest in a process of its own, bury all that it started, and return what it found."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ear)
        counter = Counter()
        code = int(pytest.main(arguments, plugins=[counter]))
        sys.stdout.flush()
        with open(mouth, "w") as file:
            json.dump(counter.count(code), file)
        os._exit(code)
    os.close(mouth)
    with open(ear) as file:
        told = _bury(child) and file.read()
    return Counted(*json.loads(told)) if told else Counted(1, 0, 0, [])


def _bury(child: int) -> bool:
    """Wait for a child, and for all whose parents are gone; return once it has ended."""
    while os.waitpid(-1, 0)[0] != child:
        pass
    until = time.monotonic() + _LEFT_S
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            break
    return True


def _children_s() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> int:
    """Run the tests, try again what may be tried again, and say what came of it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # hubs that outlive their tests are counted here
    begun, before_s = time.monotonic(), _children_s()  # `exec` of the script left us with what its lint has cost
    found = run(arguments)
    once: list[str] = []
    again = found
    if os.environ.get("CI") and 0 < len(found.failed) <= _MOST_AGAIN:
        print("\nTRIED AGAIN, ALONE:", *found.failed, sep="\n  ", flush=True)
        again = run(["-p", "no:cacheprovider", *found.failed])
        ran = again.passed and not again.skipped  # a test that was skipped has shown nothing
        once = [name for name in found.failed if name not in again.failed] if ran else []
    minutes = (_children_s() - before_s) / 60
    passed, failed = found.passed + len(once), len(found.failed) - len(once)
    print(f"\ncost: {minutes:.2f} CPU-minutes of all processes, {(time.monotonic() - begun) / 60:.2f} minutes")
    for name in once:
        print(f"FAILED ONCE: {name} (it passed alone: mend the test, or the race that it found)")
    if passed or failed:
        print(f"tests: {passed} passed, {failed} failed, {found.skipped} skipped")
    return again.code if once and not failed else found.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
