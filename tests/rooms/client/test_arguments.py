"""The words of a command line, as names and values."""

import pytest

from vedette.client.arguments import of_program, read


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--lr 0.1 --bs=32 -x", {"lr": 0.1, "bs": 32, "x": True}),
        ("--learning-rate 1e-3 --no-cuda data.csv", {"learning_rate": 0.001, "no_cuda": "data.csv"}),
        ("--layers 64 64 -3 --next", {"layers": [64, 64, -3], "next": True}),
        ("--tag a --tag b --tag c", {"tag": ["a", "b", "c"]}),
        ("lr=0.1 model.depth=18 +opt=adam ++a/b@c=[1,2] ~gone",
         {"lr": 0.1, "model.depth": 18, "opt": "adam", "a/b@c": [1, 2]}),
        ("-v lr=0.1 -j4 -n 3 -o=x", {"v": True, "lr": 0.1, "j": 4, "n": 3, "o": "x"}),
        ("--id 007 --a .5 --b +2 --c true --d True --e null",
         {"id": "007", "a": 0.5, "b": 2.0, "c": True, "d": "True", "e": None}),
        ("a b 3 -- --lr 1", {}),
        ("-1 --1 - --=3 ---- =2", {}),
    ],
)  # fmt: skip
def test_options(words, found):
    """An option takes the word behind it unless that is an option; numbers are numbers, repeated ones are lists."""
    assert read(words.split()) == found


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("python -u train.py --lr 1", "--lr 1"),
        ("/usr/bin/python3.12 -m pkg.train --lr 1", "--lr 1"),
        ("torchrun --nproc_per_node=2 train.py --lr 1", "--lr 1"),
        ("env A=1 python -m x --q 2", "--q 2"),
        ("./train --config exp.py --lr 1", "--config exp.py --lr 1"),
        ("mpiexec -n 4 ./solver -x 1", "-x 1"),
        ("bash -c x --lr 1", ""),
        ("python -c code --lr 1", ""),
        ("train", ""),
    ],
)
def test_whose_arguments_they_are(command, rest):
    """Those of Python, of a launcher or a shell are not the program's."""
    assert of_program(command.split()) == rest.split()
