"""The document of the classifier's monitor: its commands and its code as they stand there, in order, as one journey."""

import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.ports import reserve_port

PYML = f"{sys.executable} -m vedette.compat.classifier"  # all that differs: the document has ./pyml.py
SERVER = './pyml.py monitor -setting Monitor "address: :<port>"'
CONNECT = '-setting Monitor "{address: <ip>:<port>, connect: true}"'
ENABLE = '-setting monitor.Usage "enable: true"'
ANALYSIS = "-analysis monitor.Usage"
CODE = """
    import logging
    import rich.table

    logging.info("message1", "message2", "message3")
    logging.info("message1 %s", "message2")
    logging.info("title of table", rich.table.Table("col1", "col2"))

    from classifier.monitor.progress import Progress

    with Progress.new(total=100, msg=("step", "Message")) as progress:
        for i in range(100):
            progress.advance(1)
        # or
        for i in range(100):
            progress.update(i + 1)

    from classifier.monitor.usage import Usage

    for i in range(10):
        Usage.checkpoint("step", i)
"""


class Shown:
    """What a program has printed so far."""

    def __init__(self, process):
        self.text = ""
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        for line in self._process.stdout:
            self.text += line

    def end(self):
        self._thread.join(30)
        return self.text


@pytest.fixture
def told(home, tmp_path, monkeypatch):
    """A free port, a script with the document's code, and how to write its command lines."""
    monkeypatch.delenv("VEDETTE_USAGE_ENABLE")
    port = reserve_port("")
    for name in ("first", "second"):
        code = textwrap.dedent(CODE).replace("from classifier.", "from vedette.compat.classifier.")
        (tmp_path / f"{name}.py").write_text(code + "\nimport time\ntime.sleep(1.2)  # so that it is measured\n")

    def words(*parts, ip=""):
        line = " ".join(parts).replace("./pyml.py", PYML).replace("<port>", str(port)).replace("<ip>", ip)
        return shlex.split(line)

    return words


def answers(port):
    """Tell whether somebody listens at a port."""
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", int(port[0]))) == 0


def call(words, folder):
    """Run a command line to its end; it goes well."""
    done = subprocess.run(words, cwd=folder, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_document(home, tmp_path, told):
    """A server and its calls do what the document says, also after the server's hub was killed and replaced.

    The settings stand behind the script, as in the document. A job's hub, which does not listen, is replaced by one of
    the server's at the same port. Ctrl-C ends the server, and the usage of all its calls is on one page.
    """
    server = subprocess.Popen(
        told(SERVER, ANALYSIS), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path
    )
    shown = Shown(server)
    try:
        told_ip = eventually(lambda: re.search(r"VEDETTE_HUB=vedette://[^@]+@([^:]+):", shown.text), 20)
        call(told("./pyml.py first.py", CONNECT, ip="localhost"), tmp_path)
        eventually(lambda: "col1" in shown.text and "message1 message2" in shown.text, 20)

        listening = pathlib.Path(home.connect).read_text()
        end_hub(home)
        home.wake_hub()  # as a job does
        eventually(lambda: answers(told("<port>")) and os.path.exists(home.connect), 20)
        assert pathlib.Path(home.connect).read_text() == listening
        call(told("./pyml.py second.py", CONNECT, ENABLE, ip=told_ip[1]), tmp_path)
        eventually(lambda: shown.text.count("col1") == 2, 20)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
    assert (server.returncode, home.hub_pid()) == (0, None), shown.end()
    assert "killed by SIGKILL; another one is started" in shown.end()

    assert [(run.name, run.state) for run in read_runs(home)] == [("first", "done"), ("second", "done")]
    assert all([(bar.name, bar.done) for bar in run.progress()] == [("step | Message", 100)] for run in read_runs(home))
    marks = [[event.text for event in run.logs() if event.kind == "mark"] for run in read_runs(home)]
    assert marks == [[], [f"step {i}" for i in range(10)]]  # usage is off unless it is enabled
    [page] = tmp_path.glob("monitor-*/report/usage/index.html")
    assert "step 9" in page.read_text()
    assert "first (done), second (done)" in page.read_text()

    down = call(told("./pyml.py second.py", CONNECT, ENABLE, ANALYSIS, ip="localhost"), tmp_path)
    assert f"is kept in {home.root}" in down
    [page] = tmp_path.glob("second-*/report/usage/index.html")
    assert "step 9" in page.read_text()
