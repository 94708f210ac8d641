"""Power cuts under load: how old the newest survivor is, and that all before it is there and right."""

import random
import time
from typing import Any

from tests.journeys.disk import Cut, cuttable_disk, why_not
from tests.journeys.power import Finding, judge, read_after, writing

from bench.report import Part
from bench.spread import quartiles

_ROUND = 5  # cuts of one disk
_WRITERS = {"calm": (1000, 0), "brisk": (6000, 32 << 10)}
_LAST_S = 1.0  # what a cut may cost
_LATE_S = 0.25  # a look each 0.1 s, and the time that reading and flushing take


def measure(*, quick: bool, times: int | None) -> Part:
    """Cut the power many times; then see that a hub which does not wait for the disk is caught."""
    part = Part("power cuts")
    if reason := why_not():
        part.note(f"Left out: {reason}.")
        return part
    cuts = times or (10 if quick else 50)
    chance = random.Random(cuts)
    findings: list[Finding] = []
    damaged = unsound = unended = 0
    frozen_s = []
    for first in range(0, cuts, _ROUND):
        seal_s = (60, 1)[first // _ROUND % 2]
        pauses = [3.0, *(chance.uniform(0.5, 1.8) for _ in range(min(_ROUND, cuts - first) - 1))]
        for cut, found, each in _cut_often("real", pauses, seal_s):
            findings += each
            damaged += found["damaged"]
            unsound += found["integrity"] != ["ok"]
            unended += sum(run["state"] == "running" for run in found["runs"].values())
            frozen_s.append((cut.done - cut.begun) / 1e9)
    ages = [finding.age_s for finding in findings]
    what = f"age at the cut of the newest record that is there with all before it, {cuts} cuts, 2 writers"
    part.know(what, f"{quartiles(ages).show('.2f', ' s')}, longest {max(ages):.2f} s")
    worst = max(ages)
    part.most("the longest of them", worst, _LAST_S + _LATE_S, f"{worst:.2f} s", " s (1 s, and one look of the hub)")
    lost = sum(finding.missing for finding in findings)
    part.judge("records and marks older than that which are gone", f"{lost}", "0", lost == 0)
    wrong = sum(finding.wrong for finding in findings)
    part.judge("records wrong, twice, out of order, invented, or gone uncounted", f"{wrong}", "0", wrong == 0)
    part.judge("stores damaged", f"{unsound}", "0", unsound == 0)
    part.judge(f"runs of {len(findings)} that are not known to have ended", f"{unended}", "0", unended == 0)
    part.know("damages counted (segments without a header, mostly)", f"{damaged}")
    [(_, _, control)] = _cut_often("hasty", [6.0], 60, {"calm": _WRITERS["calm"]})
    caught = sum(finding.missing for finding in control)
    part.judge("control: a hub that frees without flushing, 1 cut", f"{caught} gone", "> 0", caught > 0)
    part.note(
        "Two writers of 1000 and 6000 records a second, the second in segments of 32 KiB; a hub with sync_s=1 and"
        " seal_s=60 and 1 by turns. The home is on ext4 in a file on ext4 in a file on ext4, all in memory: by turns a"
        " cut keeps what had been flushed alone, or all that the disk had received. The file system below is frozen"
        f" for the copy (freezing takes {quartiles(frozen_s).show('.3f', ' s')}), so that it is the disk of one moment;"
        " it is mounted anew, and read by a new hub under another boot id. A real disk flushes slower than memory."
    )
    return part


def _cut_often(
    hub: str, pauses: list[float], seal_s: float, paces: dict[str, tuple[int, int]] = _WRITERS
) -> list[tuple[Cut, dict[str, Any], list[Finding]]]:
    with cuttable_disk() as disk:
        cuts = []
        with writing(disk, paces, hub=hub, VEDETTE_HUB_SEAL_S=str(seal_s)) as writers:
            for number, pause in enumerate(pauses):
                time.sleep(pause)
                cuts.append(disk.cut(flushed=number % 2 == 0))
        found = [(cut, read_after(disk, cut)) for cut in cuts]
        limit = _LAST_S + _LATE_S
        return [(cut, left, [judge(writer, cut, left, limit) for writer in writers]) for cut, left in found]
