"""A made-up /proc: as much of it as is read."""

import os

TICKS = os.sysconf("SC_CLK_TCK")


class ProcTree:
    """Processes that can be changed as a test goes on; `lists`: this kernel has lists of children."""

    def __init__(self, root, *, lists=True):
        self.root = str(root)
        self._lists = lists
        self._parents = {}

    def add(
        self, pid, ppid=1, *, name="job", started=100, cpu_s=0.0, waited_s=0.0, faults=(1, 0), pages=10, threads=1,
        io=(0, 0), state="S", argv=(), group=0, session=0, terminal=0,
    ):  # fmt: skip
        """Put a process there, or change what it says; `waited_s`, `faults`: also of those that it has waited for."""
        self._parents[pid] = ppid
        for thread in range(pid, pid + threads):
            os.makedirs(f"{self.root}/{pid}/task/{thread}", exist_ok=True)
        ticks, waited = round(cpu_s * TICKS), round(waited_s * TICKS)
        fields = [state, ppid, group, session, terminal, 0, 0, faults[0], faults[1], 0, 0]
        fields += [ticks, 0, waited, 0, 0, 0, threads, 0, started, 0, pages, *[0] * 28]
        self._write(f"{pid}/stat", f"{pid} ({name}) " + " ".join(map(str, fields)) + "\n")
        self._write(f"{pid}/status", f"Name:\t{name}\nTgid:\t{pid}\nPid:\t{pid}\n")
        self._write(f"{pid}/cmdline", "\0".join([*argv, ""]) if argv else "")
        if io is not None:
            self._write(f"{pid}/io", f"rchar: 1\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\ncancelled_write_bytes: 9\n")
        self._relist()

    def environ(self, pid, **variables):
        """Say with which environment a process was started."""
        self._write(f"{pid}/environ", "".join(f"{name}={value}\0" for name, value in variables.items()))

    def machine(self, *, cores, memory_kb):
        """Say what the machine has."""
        self.write("stat", "cpu 0 0 0 0 0 0 0 0\n" + "".join(f"cpu{n} 0 0 0 0 0 0 0 0\n" for n in range(cores)))
        self.write("meminfo", f"MemTotal: {memory_kb} kB\n")

    def write(self, path, text):
        """Put any file there."""
        os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
        self._write(path, text)

    def remove(self, pid):
        """Have a process end; its children are then those of process 1."""
        for folder, _, files in list(os.walk(f"{self.root}/{pid}", topdown=False)):
            for file in files:
                open(f"{folder}/{file}", "w").close()  # who has it open reads nothing more
                os.unlink(f"{folder}/{file}")
            os.rmdir(folder)
        del self._parents[pid]
        self._parents = {child: 1 if parent == pid else parent for child, parent in self._parents.items()}
        self._relist()

    def _relist(self):
        if self._lists:
            for pid in self._parents:
                children = [child for child, parent in self._parents.items() if parent == pid]
                tasks = sorted(os.listdir(f"{self.root}/{pid}/task"), key=int)
                for place, thread in enumerate(tasks):  # each child was begun by one of the threads
                    mine = children[place :: len(tasks)]
                    self._write(f"{pid}/task/{thread}/children", "".join(f"{child} " for child in mine))

    def _write(self, path, text):
        with open(os.path.join(self.root, path), "w") as file:
            file.write(text)
