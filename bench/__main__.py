"""The command line of the bench: which parts to run, how thoroughly."""

import argparse
import importlib
import os
import sys
import time

from bench import report

# name: (module, what --times counts)
PARTS = {
    "log": ("log", "rounds"),
    "logging": ("logging_calls", "rounds"),
    "save": ("save", "rounds"),
    "ingest": ("ingest", "rounds"),
    "disk": ("disk", ""),
    "reads": ("reads", "rounds"),
    "compare": ("compare", "rounds"),
    "progress": ("progress", "kills of the hub"),
    "import": ("imports", "rounds"),
    "cli": ("cli", "rounds"),
    "capture": ("capture", "rounds"),
    "workload": ("workload", "pairs"),
    "run": ("run", "rounds"),
    "runs": ("runs", "runs in sequence"),
    "fork": ("fork", "processes of each kind"),
    "kill": ("kill", "kills of a client"),
    "hub-kill": ("hub_kill", "kills of the hub"),
    "ends": ("ends", "ends of each way in each state of the hub"),
    "hosts": ("hosts", "kills of a hub"),
    "relay": ("relay", "kills of either hub"),
    "fuzz": ("fuzz", "frames"),
    "power-cut": ("power_cut", "cuts"),
    "remove": ("remove", "runs that are removed"),
    "sync": ("sync", "rounds"),
    "top": ("top", "seconds"),
    "usage": ("usage", "seconds of each"),
    "sensors": ("sensors", "looks"),
    "console": ("console", "rounds"),
    "monitors": ("monitors", "seconds of each that is watched for its cost"),
    "sinks": ("sinks", "rounds"),
    "notebook": ("notebook", "kernels"),
    "web": ("web", "rounds of each question"),
    "half_open": ("half_open", "requests to each port"),
    "page": ("page", "rounds"),
    "means": ("means", ""),
    "burden": ("burden", "runs in sequence"),
    "soak": ("soak", "minutes"),
}


def main() -> int:
    """Run the parts that are asked for; return 1 when a goal is missed."""
    counted = "; ".join(f"{name}: {what}" for name, (_, what) in PARTS.items() if what)
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure, and write bench/RESULTS.md.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works, not to be quoted")
    parser.add_argument("--times", type=int, metavar="N", help=f"how often ({counted})")
    said = parser.parse_args()
    if unknown := [name for name in said.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: it is one of {', '.join(PARTS)}")
    for name in [name for name in os.environ if name.startswith("VEDETTE_")]:
        del os.environ[name]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported: its threads are noise here
    begun = time.monotonic()
    short = False
    for name in said.parts or [name for name in PARTS if name != "soak"]:  # which takes an hour
        module = importlib.import_module(f"bench.{PARTS[name][0]}")
        options = f"{' --quick' if said.quick else ''}{f' --times {said.times}' if said.times else ''}"
        part = module.measure(quick=said.quick, times=said.times)
        part.command = f"scripts/bench {name}{options}"
        report.write(name, part, list(PARTS))
        report.show(name, part)
        short = short or any(row.verdict == report.SHORT for row in part.rows)
        sys.stdout.flush()
    print(f"\n{time.monotonic() - begun:.0f} s; bench/RESULTS.md is up to date")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
