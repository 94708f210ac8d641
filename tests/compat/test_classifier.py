"""The classifier's monitor: what its document shows, as it stands there but for the leading name."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette.compat.classifier.setting import KNOWN, Chosen
from vedette.errors import SettingError
from vedette.home import Home

CLASSIFIER = [sys.executable, "-m", "vedette.compat.classifier"]
LOGGING = """
    import logging
    import rich.table

    logging.info("message1", "message2", "message3")
    logging.info("message1 %s", "message2")
    logging.info("title of table", rich.table.Table("col1", "col2"))
"""
PROGRESS = """
    from vedette.compat.classifier.monitor.progress import Progress

    with Progress.new(total=100, msg=("step", "Message")) as progress:
        for i in range(100):
            progress.advance(1)
    with Progress.new(total=100, msg=("step", "Message")) as progress:
        for i in range(100):
            progress.update(i + 1)
"""
USAGE = """
    import time
    from vedette.compat.classifier.monitor.usage import Usage

    for i in range(10):
        Usage.checkpoint("step", i)
        time.sleep(0.15)
"""
CALLBACK = """
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from vedette.compat.classifier.monitor.progress import Progress

    def work(n):
        return n

    def shared(progress):
        progress.advance(1, distributed=True)

    if __name__ == "__main__":
        for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
            with Progress.new(total=20, msg=("callback", kind.__name__)) as progress, kind(4) as pool:
                for n in range(20):
                    pool.submit(work, n).add_done_callback(lambda _: progress.advance(1))
        with Progress.new(total=20, msg="shared") as progress, ProcessPoolExecutor(4) as pool:
            list(pool.map(shared, [progress] * 20))
"""


def classifier(folder, code, *options, timeout=60):
    """Run a script under the classifier's command line; return how it ended."""
    script = folder / "job.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.run(
        [*CLASSIFIER, *options, str(script)], cwd=folder, text=True, capture_output=True, timeout=timeout, check=False
    )


def the_run(home):
    """Return the one run of a home, once it has ended."""
    return eventually(lambda: next((run for run in read_runs(home) if run.end_t is not None), None), 20)


def test_logging(home, tmp_path):
    """Several messages in one call, the original formatting, and rich objects are all taken down."""
    done = classifier(tmp_path, LOGGING)
    assert done.returncode == 0, done.stderr

    texts = [event.text for event in the_run(home).logs() if event.kind == "log"]
    assert [part in texts[0] for part in ("message1", "message2", "message3")] == [True] * 3
    assert texts[1] == "message1 message2"
    assert all(word in texts[2] for word in ("title of table", "col1", "col2"))


def test_progress(home, tmp_path):
    """A tracker that was advanced, and one that was updated, have come to their total."""
    done = classifier(tmp_path, PROGRESS)
    assert done.returncode == 0, done.stderr

    bars = the_run(home).progress()
    assert [(bar.done, bar.total, bar.state) for bar in bars] == [(100, 100, "done")] * 2
    assert {bar.name for bar in bars} == {"step | Message"}


def test_progress_of_many(home, tmp_path):
    """A tracker counts what callbacks of threads and processes advance, and one that processes share."""
    done = classifier(tmp_path, CALLBACK)
    assert done.returncode == 0, done.stderr

    assert [(bar.done, bar.state) for bar in the_run(home).progress()] == [(20, "done")] * 3


def test_usage_is_off_unless_said(home, tmp_path):
    """Without the setting nothing is measured, and a checkpoint does nothing."""
    assert classifier(tmp_path, USAGE).returncode == 0

    assert [event for event in the_run(home).logs() if event.kind == "mark"] == []


def test_usage_is_measured_and_drawn(home, tmp_path):
    """With the setting each process is measured, checkpoints are marks, and the analysis is one file that is whole."""
    done = classifier(
        tmp_path, USAGE, "-setting", "monitor.Usage", "{enable: true, interval: 0.2}", "-analysis", "monitor.Usage"
    )
    assert done.returncode == 0, done.stderr

    marks = [event.text for event in the_run(home).logs() if event.kind == "mark"]
    assert marks == [f"step {i}" for i in range(10)]
    [page] = pathlib.Path(tmp_path).glob("job-*/report/usage/index.html")
    text = page.read_text()
    assert "step 3" in text
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text


def test_exceptions_are_seen_and_taken_down(home, tmp_path):
    """A script that fails shows its traceback, exits with 1, and its run says why."""
    done = classifier(tmp_path, "raise ValueError('bad')", "-setting", "monitor.Log", "forward_exception: true")

    assert done.returncode == 1
    assert "ValueError: bad" in done.stderr
    assert (the_run(home).state, the_run(home).cause) == ("failed", "ValueError: bad")


@pytest.mark.parametrize(
    ("code", "exit_code", "state", "cause"),
    [
        ("import sys; sys.exit(0)", 0, "done", ""),
        ("import sys; sys.exit(3)", 3, "failed", "exit code 3"),
        ("raise ValueError('bad')", 1, "failed", "ValueError: bad"),
    ],
)
def test_an_analysis_leaves_the_end_as_it_is(home, tmp_path, code, exit_code, state, cause):
    """A script whose usage is drawn ends as it would without, and its exception is on record."""
    done = classifier(tmp_path, code, "-analysis", "monitor.Usage")

    assert done.returncode == exit_code
    assert (the_run(home).state, the_run(home).cause) == (state, cause)
    assert [event.kind for event in the_run(home).logs()].count("exception") == code.startswith("raise")


def test_a_server_and_a_call(home, tmp_path, monkeypatch):
    """A server by hand takes in a call that is told its name, and shows it. It leaves when its hub is stopped."""
    word = f"test-{os.getpid()}"
    server = subprocess.Popen(
        [*CLASSIFIER, "monitor", "-setting", "Monitor", f'address: "{word}"'],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path,
    )  # fmt: skip
    try:
        eventually(lambda: os.path.exists(home.connect), 20)
        monkeypatch.setenv("VEDETTE_HOME", str(tmp_path / "other"))
        done = classifier(tmp_path, LOGGING, "-setting", "Monitor", f"{{address: {word}, connect: true}}")
        assert done.returncode == 0, done.stderr
        monkeypatch.setenv("VEDETTE_HOME", home.asked)
        assert the_run(home).name == "job"
        shown = ""
        while "message1 message2" not in shown and (line := server.stdout.readline()):
            shown += line
        end_hub(home, signal.SIGTERM)  # as `vedette hub --stop` does
        server.wait(30)
    finally:
        server.send_signal(signal.SIGINT)
        shown += server.communicate(timeout=30)[0]
        if pid := Home(str(tmp_path / "other")).hub_pid():  # it waits for the server, which does not come back
            os.kill(pid, signal.SIGTERM)
    assert "VEDETTE_HUB=" in shown
    assert "message1 message2" in shown
    assert "\x1b" not in shown
    assert server.returncode == 1
    assert "the hub of this server was stopped" in shown


def test_a_server_that_is_told_to_end_leaves_no_hub(home, tmp_path):
    """A server that gets SIGTERM, as from `timeout` or a service, takes its hub and the open port with it.

    The hub has nothing of the run that the server was started in, and no module of the working directory.
    """
    server = subprocess.Popen(
        [*CLASSIFIER, "monitor", "-setting", "Monitor", f'address: ":{20000 + os.getpid() % 20000}"'],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path,
        env={**os.environ, "VEDETTE_RUN": "other-run", "VEDETTE_TRY": "1"},
    )  # fmt: skip
    try:
        eventually(lambda: os.path.exists(home.connect) and home.hub_pid(), 20)
        hub = pathlib.Path(f"/proc/{home.hub_pid()}")
        assert b"other-run" not in (hub / "environ").read_bytes()
        assert b"-P" in (hub / "cmdline").read_bytes().split(b"\0")
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert home.hub_pid() is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("-setting", "monitor.Usge", "enable: true"), "did you mean 'monitor.Usage'?"),
        (("-setting", "monitor.Usage", "intervall: 1"), "did you mean 'interval'?"),
        (("-setting", "monitor.Usage", "true"), "takes KEY: VALUE"),
        (("-setting", "monitor.Usage", "{enable: "), "is not YAML"),
        (("-setting", "monitor.Usage", "interval: often"), "usage.interval_s has a bad value"),
        (("-setting", "Monitor", "enable: [1, 2]"), "is true or false"),
        (("-setting", "IO", "output: '{nothing}'"), "takes {main} and {timestamp}"),
        (("-setting", "Monitor"), "takes KEY: VALUE"),
        (("-analysis", "monitor.Use"), "did you mean 'monitor.Usage'?"),
        (("-nothing",), "there is no option"),
        (("-setting", "Monitor", "{address: 10.9.8.7:10200, connect: true}"), "the whole vedette://"),
        (("-setting", "Monitor", "{address: 'vedette://t0ken@10.9.8.7:1', connect: true}"), "into VEDETTE_HUB"),
    ],
)
def test_what_is_not_known(home, tmp_path, options, sentence):
    """What cannot be set is refused in one sentence that names the nearest, before anything is run."""
    done = classifier(tmp_path, "open('ran', 'w')", *options)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert sentence in done.stderr
    assert not (tmp_path / "ran").exists()


def test_every_setting_of_the_original_is_known():
    """Each of them can be given; what has no meaning here is said to have none."""
    chosen = Chosen()
    for section, keys in KNOWN.items():
        for key, (default, _) in keys.items():
            chosen.add(section, f"{key}: {str(default).lower() if isinstance(default, bool) else 7}")
    assert "Monitor retry_max" in chosen.meaningless()
    assert chosen.environ()["VEDETTE_USAGE_INTERVAL_S"] == "7"
    with pytest.raises(SettingError):
        chosen.add("Nothing", "a: 1")


def test_a_port_that_is_taken_is_said(home, tmp_path):
    """A call that is to be a server at a port that somebody has says so before its script begins."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = classifier(tmp_path, "open('ran', 'w')", "-setting", "Monitor", f"address: {address}")

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "cannot be listened on" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_call_that_is_a_server_for_others(home, tmp_path):
    """A call with an address of its own listens there while its script runs, and not longer."""
    code = """
        import os
        print(os.path.exists(os.path.join(os.environ["VEDETTE_HOME"], "hub.connect")))
    """
    done = classifier(tmp_path, code, "-setting", "Monitor", "address: 127.0.0.1:0")

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert not os.path.exists(home.connect)
    assert the_run(home).state == "done"


def test_what_a_script_raises_is_its_own(home, tmp_path):
    """An error of vedette's own that a script lets through has its traceback, and is the run's cause."""
    done = classifier(tmp_path, "import vedette; vedette.get('nothing')")

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "NotFoundError" in the_run(home).cause
