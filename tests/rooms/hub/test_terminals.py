"""The terminal of a console that was killed."""

import os

from vedette.hub.processes.terminals import erase_below


def test_what_is_erased(tmp_path):
    """A terminal is told to erase what stands below; nothing else is written to, whatever a record names."""
    master, slave = os.openpty()
    erase_below(os.ttyname(slave))
    assert os.read(master, 100) == b"\x1b[J"
    os.close(slave)
    os.close(master)

    file = tmp_path / "file"
    file.write_text("kept")
    for path in (
        str(file),
        f"/dev/pts/../..{file}",
        "/dev/null",
        "/dev/pts/999999",
        "/dev/pts/",
        "",
        None,
        3,
        ["/dev/pts/0"],
    ):
        erase_below(path)
    assert file.read_text() == "kept"
