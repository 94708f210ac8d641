"""What a hub keeps of its machine."""

import os

from tests.rooms.proc_tree import ProcTree
from vedette.hub.processes.machine import Machine


def names(machine, t=0):
    return {(name, *sorted(sample.tags.items())) for sample in machine.look(t) for name in sample.values}


def test_a_modest_part(tmp_path):
    """No core, no interface and no counter is kept; of a hundred disks the first few are."""
    tree = ProcTree(tmp_path)
    tree.machine(cores=64, memory_kb=1000)
    tree.write("meminfo", "MemTotal: 1000 kB\nMemAvailable: 1 kB\nSwapTotal: 9 kB\nSwapFree: 9 kB\n")
    tree.write("loadavg", "1 2 3 1/1 1\n")
    for resource in ("cpu", "memory", "io"):
        tree.write(f"pressure/{resource}", "some avg10=1.00 total=1\nfull avg10=1.00 total=1\n")
    tree.write(
        "diskstats",
        "".join(f"8 0 sd{letter}{other} 1 1 1 1 1 1 1 1 0 1 1\n" for letter in "ab" for other in "abcdefghij"),
    )
    tree.write("net/dev", "".join(f"eth{n}: {'1 ' * 16}\n" for n in range(50)))
    machine = Machine(tree.root, tree.root + "/sys")
    assert machine.absent.keys() <= {"power"}
    machine.look(0)
    found = names(machine)
    machine.close()
    assert {one[0] for one in found if len(one) == 1} == {
        "cpu_percent", "memory_bytes", "memory_share_percent", "swap_bytes", "load_1",
        "net_sent_bytes_per_s", "net_received_bytes_per_s",
    }  # fmt: skip
    assert len([one for one in found if one[0] == "pressure_percent"]) == 3
    assert len({one[1] for one in found if one[0].startswith("disk_")}) == 8
    assert len(found) == 7 + 3 + 3 * 8
    assert not [one for one in found if one[0].endswith("_bytes") and one[0].startswith(("net", "disk"))]


def test_nothing_there(tmp_path):
    """A machine that tells nothing of what we know costs nothing but itself."""
    (tmp_path / "stat").write_text("")
    machine = Machine(str(tmp_path), str(tmp_path))
    assert set(machine.absent) >= {"pressure", "disks", "network"}
    assert machine.look(0) == []


def test_the_real_one():
    """The numbers hang on the host, whatever is there."""
    machine = Machine()
    machine.look(0)
    samples = machine.look(5 * 10**6)
    assert {sample.step for sample in samples} == {5}
    assert all(sample.span.startswith(f"host-{os.uname().nodename[:80]}") for sample in samples)
    machine.close()
