"""What a command line runs, in a word."""

import pytest

from vedette import command_line


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("", ""),
        ("/usr/bin/make all", "make"),
        ("sh job.sh", "sh"),
        ("python", "python"),
        ("/opt/bin/python3.11 -u work/train.py --lr 0.1", "train.py"),
        ("python -W ignore -X dev train.py", "train.py"),
        ("python -Wignore train.py -W x", "train.py"),
        ("python -m pytest -q", "python -m pytest"),
    ],
)
def test_a_command_has_a_short_name(command, label):
    """It is the program, and the script or module if the program is Python; options of Python are none of it."""
    assert command_line.label(command.split()) == label
