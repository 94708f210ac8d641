"""Which modules the law, contract and room tests run less than half of: `scripts/check --coverage`.

Such a module is reached by long journeys alone, so that a change to it is not judged in seconds. The processes that
these tests start count, too, unless they are killed.
"""

import json
import os
import subprocess
import sys

_FOLDERS = ("tests/law", "tests/contract", "tests/rooms")
_HALF = 50.0


def main() -> int:
    """Run the tests, print the modules, the worst first; return how many there are, 99 at most.

    A few tests fail while everything is counted: of what a process weighs, or imports. They are judged without that.
    """
    # What a killed process has left of its count cannot be read: coverage would warn of each.
    python = [sys.executable, "-W", "ignore", "-m", "coverage"]
    subprocess.run([*python, "erase"], check=True)
    subprocess.run([*python, "run", "-m", "pytest", "-q", "-n", "3", "--dist", "loadgroup", *_FOLDERS], check=False)
    subprocess.run([*python, "combine", "-q"], check=True)
    report = os.path.join(sys.prefix, "coverage.json")
    subprocess.run([*python, "json", "-q", "-o", report], check=True)
    with open(report) as file:
        files = json.load(file)["files"]
    shares = {name: found["summary"]["percent_covered"] for name, found in files.items()}
    short = sorted((share, name) for name, share in shares.items() if share < _HALF)
    for share, name in short:
        print(f"{share:5.1f} %  {name}")
    print(f"{len(short)} of {len(shares)} modules are run to less than a half by law, contract and room tests")
    return min(len(short), 99)


if __name__ == "__main__":
    sys.exit(main())
