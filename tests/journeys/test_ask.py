"""Questions to the user: asked in any process, answered from anywhere, and the answer is kept nowhere."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from tests.conftest import end_hub
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.errors import NotFoundError
from vedette.home import Home
from vedette.hub.peers.identity import identify
from vedette.model import Command
from vedette.query.questions import waiting
from vedette.store.sqlite_file import open_reader

from .conftest import eventually, read_runs

SECRET = "Tr0ub4dor-und-3-Kamele"
ASKING = """
    import hashlib, sys, vedette
    run = vedette.init(project="p")
    print(run.id, flush=True)
    answer = vedette.ask("What is it?", password=True, timeout_s=float(sys.argv[1]))
    print("none" if answer is None else "got " + hashlib.sha256(answer.encode()).hexdigest(), flush=True)
"""


def vedette(*args, home, **kwargs):
    environ = {**os.environ, "VEDETTE_HOME": home.asked}
    return subprocess.run(
        [sys.executable, "-m", "vedette", *args],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **kwargs,
    )


def got(answer):
    """Return what a process prints that got an answer: what it prints is on record, so it is not the answer."""
    return f"got {hashlib.sha256(answer.encode()).hexdigest()}\n"


def open_questions(home):
    try:
        store = open_reader(home.store)
    except NotFoundError:  # it is not there, or is being made
        return []
    with contextlib.closing(store):
        return waiting(store)


def places_of(secret, *roots):
    """Return the files below some directories in which a secret can be found."""
    found = []
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        data = file.read()
                    if any(
                        text.encode(coding) in data
                        for text in (secret, secret[::-1])
                        for coding in ("utf-8", "utf-16-le")
                    ):
                        found.append(path)
    return found


def test_answered_from_another_process(home, hub, start):
    """A question is answered by `vedette answer`, from a pipe; the process gets the text, and no file has it."""
    asking = start(ASKING, "60")
    run = asking.stdout.readline().strip()
    eventually(lambda: open_questions(home))
    assert json.loads(vedette("answer", run, "--list", "--json", home=home).stdout)[0]["prompt"] == "What is it?"

    done = vedette("answer", run, home=home, input=SECRET + "\n")

    assert (done.returncode, done.stdout) == (0, "answered\n"), done.stderr
    assert asking.communicate(timeout=20)[0] == got(SECRET)
    read_runs(home)
    assert open_questions(home) == []
    assert places_of(SECRET, home.root) == []
    late = vedette("answer", run, "late", home=home)
    assert late.returncode == 2
    assert "no question that waits" in late.stderr


def test_a_leak_would_be_found(home, hub, finish):
    """The search for the secret finds it where a program prints it into its own record."""
    finish(f"import vedette\nrun = vedette.init()\nrun.mark({SECRET!r})")
    read_runs(home)

    assert places_of(SECRET, home.root)


def test_nobody_answers(home, finish):
    """Without an answer `ask` returns None when its time is over, and the question is closed."""
    code, out, err = finish(ASKING, "0.5")

    assert (code, out.splitlines()[1], err) == (0, "none", "")
    [run] = read_runs(home)
    assert [event.attrs["how"] for event in run.logs() if event.kind == "asked"] == ["gave up"]
    assert open_questions(home) == []


def test_the_hub_dies_while_a_process_waits(home, start):
    """A process waits on through the death of its hub, and is answered through the next one."""
    asking = start(ASKING, "60")
    run = asking.stdout.readline().strip()
    eventually(lambda: open_questions(home))
    end_hub(home)

    done = vedette("answer", run, SECRET, home=home)

    assert done.returncode == 0, done.stderr
    assert asking.communicate(timeout=20)[0] == got(SECRET)


def test_the_first_answer_wins(home, start):
    """Of several answers the first one counts, once; the others are told so."""
    asking = start(ASKING, "60")
    run = asking.stdout.readline().strip()
    eventually(lambda: open_questions(home))
    environ = {**os.environ, "VEDETTE_HOME": home.asked}
    answering = [
        subprocess.Popen(
            [sys.executable, "-m", "vedette", "answer", run, text], env=environ, stdout=-1, stderr=-1, text=True
        )
        for text in ("one", "two", "three")
    ]
    said = [process.communicate(timeout=60) for process in answering]

    codes = [process.returncode for process in answering]
    assert sorted(codes) == [0, 2, 2], said
    for code, (_, err) in zip(codes, said, strict=True):
        assert code == 0 or "answered already" in err or "answered before" in err or "no question" in err
    winner = ("one", "two", "three")[codes.index(0)]
    assert asking.communicate(timeout=20)[0] == got(winner)


def test_through_a_relay(home, hub, start, tmp_path):
    """The answer finds its way down to a process whose records go to another hub, and no hub on the way keeps it."""
    below = Home(str(tmp_path / "b"))
    os.mkdir(below.root, 0o700)
    try:
        asking = start(ASKING, "60", environ={"VEDETTE_HOME": below.asked, "VEDETTE_HUB": home.socket})
        run = asking.stdout.readline().strip()
        os.makedirs(home.spool, exist_ok=True)
        vedette("ls", home=home)  # the hub above is there
        eventually(lambda: open_questions(home), 30)

        done = vedette("answer", run, home=home, input=SECRET)

        assert (done.returncode, done.stdout) == (0, "answered\n"), done.stderr
        assert asking.communicate(timeout=20)[0] == got(SECRET)
        read_runs(home)
        assert places_of(SECRET, home.root, below.root) == []
    finally:
        end_hub(below)


class Eavesdropper:
    """A hub that relays nothing, and listens."""

    def __init__(self, home):
        self.heard = b""
        self._peer = socket.socket(socket.AF_UNIX)
        self._peer.connect(home.socket)
        self._peer.settimeout(0.5)
        self._peer.sendall(wire.pack_message(wire.Hello(name="it")))
        hello = next(wire.Unframer().feed(self._peer.recv(1 << 16)))
        shown = identify(Home(tempfile.mkdtemp()), wire.unpack_message(hello).challenge, "", "")
        self._peer.sendall(wire.pack_message(shown))

    def claim(self, *origins):
        self._peer.sendall(wire.pack_message(wire.Introduce("somebody", "somewhere", list(origins))))
        return self

    def listen(self):
        with contextlib.suppress(TimeoutError):
            while data := self._peer.recv(1 << 16):
                self.heard += data
        return self.heard


def test_an_answer_goes_to_no_other_hub(home, start, tmp_path):
    """Of all hubs that relay, only that of the process is told an answer, whoever else claims to speak for it."""
    below = Home(str(tmp_path / "b"))
    os.mkdir(below.root, 0o700)
    os.makedirs(home.spool, exist_ok=True)
    vedette("ls", home=home)
    with contextlib.ExitStack() as at_end:
        at_end.callback(end_hub, below)
        asking = start(ASKING, "60", environ={"VEDETTE_HOME": below.asked, "VEDETTE_HUB": home.socket})
        run = asking.stdout.readline().strip()
        process = eventually(lambda: open_questions(home), 30)[0].process
        idle, liar = Eavesdropper(home).claim(), Eavesdropper(home).claim(process.rpartition("/")[2])
        idle.listen()
        liar.listen()

        done = vedette("answer", run, home=home, input=SECRET)

        assert done.stdout == "answered\n", done.stderr
        assert SECRET.encode() not in idle.listen() + liar.listen()
        nobody = wire.Order(Command("id-1", "a-run/1/nobody", "stop", time.time_ns() + 10**10, {"by": SECRET}))
        ask(home, nobody)
        assert SECRET.encode() in idle.listen(), "what is for everybody would have been heard"


def test_nothing_is_no_answer(home, hub, start):
    """A pipe that brings nothing at all answers nothing; an empty line is an empty answer."""
    asking = start(ASKING, "60")
    run = asking.stdout.readline().strip()
    eventually(lambda: open_questions(home), 30)

    nothing = vedette("answer", run, home=home, stdin=subprocess.DEVNULL)
    empty = vedette("answer", run, home=home, input="\n")

    assert (nothing.returncode, nothing.stderr) == (2, "vedette: nothing was typed, so no answer was sent\n")
    assert (empty.returncode, empty.stdout) == (0, "answered\n"), empty.stderr


def test_a_worker_asks(home, hub, start):
    """A worker that was forked, and any thread of it, can ask; the answer goes to the one that asked."""
    asking = start("""
        import multiprocessing, threading, vedette
        def work(n, answers):
            thread = threading.Thread(target=lambda: answers.put((n, vedette.ask(f"worker {n}?", timeout_s=60))))
            thread.start()
            thread.join()
        if __name__ == "__main__":
            run = vedette.init()
            answers = multiprocessing.get_context("fork").Queue()
            workers = [multiprocessing.get_context("fork").Process(target=work, args=(n, answers)) for n in range(2)]
            for worker in workers: worker.start()
            print(run.id, flush=True)
            print(sorted(answers.get() for _ in workers))
    """)
    run = asking.stdout.readline().strip()
    questions = eventually(lambda: open_questions(home) if len(open_questions(home)) == 2 else None)
    for question in questions:
        assert vedette("answer", run, question.prompt[7], "--question", question.id, home=home).returncode == 0

    assert asking.communicate(timeout=20)[0] == "[(0, '0'), (1, '1')]\n"


def test_ctrl_c_while_it_waits(home, hub, start):
    """Ctrl-C ends the waiting as it ends anything else, and the question is closed."""
    asking = start("""
        import vedette
        run = vedette.init()
        print("ready", flush=True)
        try:
            vedette.ask("ever?")
        except KeyboardInterrupt:
            print("interrupted")
    """)
    asking.stdout.readline()
    eventually(lambda: open_questions(home))
    asking.send_signal(signal.SIGINT)

    assert asking.communicate(timeout=20) == ("interrupted\n", "")
    read_runs(home)
    assert open_questions(home) == []


@pytest.mark.parametrize("timeout_s", ["None", "'soon'", "float('nan')", "-1"])
def test_off_without_a_terminal(home, finish, timeout_s):
    """With VEDETTE_MODE=off and no terminal there is nobody to ask: None, at once."""
    begun = time.monotonic()
    code, out, _ = finish(
        f"import vedette\nprint(vedette.ask('x', timeout_s={timeout_s}))", environ={"VEDETTE_MODE": "off"}
    )

    assert (code, out) == (0, "None\n")
    assert time.monotonic() - begun < 30
    assert not os.path.exists(home.store)
