"""The monitors of heflwr: what its document shows, as it stands there but for the leading name."""

import ast
import http.server
import inspect
import logging
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
import urllib.request
import warnings

import pytest

from tests.journeys.conftest import eventually
from tests.ports import reserve_port
from vedette.compat.heflwr import log
from vedette.compat.heflwr.monitor import process_monitor, thread_monitor
from vedette.compat.heflwr.monitor.numbers import Account

STATS = [
    "cpu_usage", "memory_usage", "network_bytes_sent", "network_bytes_recv",
    "power_vdd_in", "power_vdd_cpu_gpu_cv", "power_vdd_soc",
]  # fmt: skip
SUMMARY = [
    "avg_cpu_usage", "avg_memory_usage", "total_network_bytes_sent", "total_network_bytes_recv",
    "total_power_vdd_in", "total_power_vdd_cpu_gpu_cv", "total_power_vdd_soc",
]  # fmt: skip
LINE = r"CPU Usage: [\d.]+%, Memory Usage: [\d.]+%, Bytes Sent: \d+, Bytes Recv: \d+, "
QUICK_START = """
    from vedette.compat.heflwr.monitor.PLACE_monitor import FileMonitor

    # Initialize a monitor instance
    monitor = FileMonitor(file='./log.txt', interval=5)

    # Start - main - stop
    monitor.start()  # Monitor begins continuous monitoring and writes logs to log.txt.
    your_main_logic()  # Your deep learning code / federated learning code / any Python code
    monitor.stop()  # Monitor stops monitoring and ceases log writing.

    # Post-processing
    detail = monitor.stats()
    summary = monitor.summary()
    print(detail)
    print(summary)
"""
MAIN_LOGIC = """
    import multiprocessing, time
    multiprocessing.set_start_method("METHOD")

    def your_main_logic():
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
"""
BOTH = pytest.mark.parametrize("place", [process_monitor, thread_monitor], ids=["process", "thread"])
KINDS = {"FileMonitor": ("log.txt",), "PrometheusMonitor": (0,), "RemoteMonitor": ("127.0.0.1:9",)}


def script(folder, code, **kwargs):
    """Run a script in a folder to its end; return how it ended."""
    (folder / "job.py").write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, "job.py"], cwd=folder, text=True, capture_output=True, timeout=60, check=False, **kwargs
    )


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.fixture
def server():
    """A server that takes down what is posted to it: (path, fields)."""
    heard = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert self.headers["Content-Type"] == "application/x-www-form-urlencoded"
            heard.append((self.path, dict(urllib.parse.parse_qsl(body, keep_blank_values=True))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        running.heard, running.host = heard, f"127.0.0.1:{running.server_port}"
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("place", ["process", "thread"])
def test_quick_start(tmp_path, method, place):
    """The document's first example runs as a script without a guard, whatever way processes are started by."""
    code = textwrap.dedent(MAIN_LOGIC) + textwrap.dedent(QUICK_START)
    done = script(tmp_path, code.replace("METHOD", method).replace("PLACE", place))
    assert (done.returncode, done.stderr) == (0, "")

    detail, summary = map(ast.literal_eval, done.stdout.splitlines())
    assert list(detail) == STATS
    assert list(summary) == SUMMARY
    assert len(detail["cpu_usage"]) >= 1
    assert summary["avg_cpu_usage"] > 1
    assert summary["avg_memory_usage"] > 0
    assert detail["power_vdd_in"] == []
    assert summary["total_power_vdd_in"] == 0
    assert summary["total_network_bytes_sent"] == sum(detail["network_bytes_sent"])
    first, *lines = (tmp_path / "log.txt").read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", first)
    assert len(lines) == len(detail["cpu_usage"])
    assert all(re.fullmatch(LINE, line) for line in lines)


@BOTH
def test_arguments(place):
    """Arguments have the original's names, order and defaults."""
    for name, shown in (
        ("FileMonitor", "(file, interval=5)"),
        ("PrometheusMonitor", "(port=8003, interval=5)"),
        ("RemoteMonitor", "(host, interval=5, identifier=None, simple=True)"),
    ):
        found = inspect.signature(getattr(place, name))
        theirs = [
            one.replace(annotation=one.empty) for one in found.parameters.values() if one.kind is not one.KEYWORD_ONLY
        ]
        assert str(inspect.Signature(theirs)) == shown


@BOTH
@pytest.mark.parametrize("name", KINDS)
def test_attributes(place, name):
    """A monitor shows what it is set to, and before anything is measured has every key, empty."""
    monitor = getattr(place, name)(*KINDS[name])

    assert (monitor.pid, monitor.interval) == (os.getpid(), 5)
    assert monitor.metrics == {"cpu": True, "memory": True, "network": True, "power": False}
    assert monitor.stats() == {key: [] for key in STATS}
    assert list(monitor.stats()) == STATS
    assert monitor.summary() == dict.fromkeys(SUMMARY, 0)
    assert list(monitor.summary()) == SUMMARY
    monitor.stop()
    if place is thread_monitor:
        assert (monitor.monitoring, monitor.thread) == (False, None)
    else:
        assert (monitor.monitoring.is_set(), monitor.monitor_process) == (False, None)


def test_identifiers():
    """A remote monitor without an identifier gets one that is its own."""
    made = [thread_monitor.RemoteMonitor("127.0.0.1:9").identifier for _ in range(2)]

    assert all(re.fullmatch("remote-monitor-[0-9a-f]{32}", one) for one in made)
    assert made[0] != made[1]
    assert process_monitor.RemoteMonitor("127.0.0.1:9", 5, "client A", False).identifier == "client A"


@BOTH
def test_set_metrics(place, tmp_path):
    """Metrics are set one by one; what is no metric, or no bool, is refused in the original's words."""
    one, other = (place.FileMonitor(str(tmp_path / "log.txt")) for _ in range(2))
    one.set_metrics(cpu=False, memory=True, network=True, power=True)
    other.set_metrics(cpu=False, power=True)

    assert one.metrics == other.metrics == {"cpu": False, "memory": True, "network": True, "power": True}
    with pytest.raises(
        ValueError, match=r"^Metric 'gpu' is not supported\. Available metrics: \['cpu', 'memory', 'net"
    ):
        one.set_metrics(gpu=True)
    with pytest.raises(TypeError, match=r"^Value for metric 'cpu' must be a boolean, got <class 'int'> instead\.$"):
        one.set_metrics(cpu=1)


@pytest.mark.parametrize("interval", ["often", None, -1, float("nan")])
def test_bad_intervals(tmp_path, interval):
    """An interval by which nothing can be measured is refused when it is said, not in a thread that dies of it."""
    with pytest.raises((TypeError, ValueError), match="interval"):
        thread_monitor.FileMonitor(str(tmp_path / "log.txt"), interval)


def test_bad_places():
    """So is what is no file, port or host."""
    with pytest.raises(TypeError):
        thread_monitor.FileMonitor(None)
    with pytest.raises((TypeError, ValueError)):
        process_monitor.PrometheusMonitor("x")
    with pytest.raises((TypeError, ValueError)):
        process_monitor.RemoteMonitor(None)


@BOTH
def test_before_during_and_after(place, tmp_path):
    """What was measured can be asked for at any time, and grows; nothing is measured after stop()."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.1)
    monitor.start()
    spin(0.3)
    during = eventually(lambda: monitor.stats() if len(monitor.stats()["cpu_usage"]) >= 2 else None)
    assert list(during) == STATS
    assert monitor.summary()["avg_cpu_usage"] > 0
    eventually(lambda: len(monitor.stats()["cpu_usage"]) > len(during["cpu_usage"]))
    monitor.stop()

    after = monitor.stats()
    for key in STATS[:4]:
        assert len(after[key]) > len(during[key])
        assert after[key][: len(during[key])] == during[key]
    time.sleep(0.3)
    assert monitor.stats() == after
    assert {len(after[key]) for key in STATS[:4]} == {len(after["cpu_usage"])}
    assert all(isinstance(one, int) for one in after["network_bytes_sent"])


@BOTH
def test_again(place, tmp_path):
    """start() and stop() may be called twice, and a monitor that has stopped may be started again, and goes on."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.05)
    for _ in range(2):
        monitor.start()
        begun = monitor.thread if place is thread_monitor else monitor.monitor_process
        assert begun.is_alive()
        monitor.start()
        assert begun == (monitor.thread if place is thread_monitor else monitor.monitor_process)
        seen = len(monitor.stats()["cpu_usage"])
        eventually(lambda seen=seen: len(monitor.stats()["cpu_usage"]) > seen + 1)
        monitor.stop()
        monitor.stop()
        assert not begun.is_alive()
    text = (tmp_path / "log.txt").read_text().splitlines()

    assert len([line for line in text if line[:2] == "20"]) == 2
    assert len(monitor.stats()["cpu_usage"]) == len(text) - 2


@BOTH
def test_the_file_has_the_same_numbers(place, tmp_path):
    """What stands in the file is what stats() tells, moment by moment, and what summary() adds up."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.1)
    monitor.start()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_connection(one.getsockname()) as other:
        while len(monitor.stats()["cpu_usage"]) < 4:
            other.send(b"x" * 1000)
            time.sleep(0.02)
    monitor.stop()

    lines = (tmp_path / "log.txt").read_text().splitlines()[1:]
    written = [[float(word) for word in re.findall(r"[\d.]+", line)] for line in lines]
    told = monitor.stats()
    assert written == [list(row) for row in zip(*(told[key] for key in STATS[:4]), strict=True)]
    for key, total in zip(STATS[2:4], SUMMARY[2:4], strict=True):
        assert sum(told[key]) == monitor.summary()[total] > 0


@BOTH
def test_children_count(place, tmp_path):
    """What children of the process use is used."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.2)
    begun = time.monotonic()
    monitor.start()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.8: pass"], check=True)
    monitor.stop()
    passed_s = time.monotonic() - begun

    assert monitor.summary()["avg_cpu_usage"] / 100 * passed_s > 0.7


@BOTH
def test_metrics_that_are_off(place, tmp_path):
    """A metric that is off is an empty list, a zero, and not in the file."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.05)
    monitor.set_metrics(cpu=False, network=False)
    monitor.start()
    eventually(lambda: len(monitor.stats()["memory_usage"]) > 1)
    monitor.stop()

    assert [key for key, values in monitor.stats().items() if values] == ["memory_usage"]
    assert [key for key, value in monitor.summary().items() if value] == ["avg_memory_usage"]
    assert re.fullmatch(r"Memory Usage: [\d.]+%, ", (tmp_path / "log.txt").read_text().splitlines()[1])


@pytest.mark.parametrize("place", ["process", "thread"])
def test_power_that_is_not_there(tmp_path, place):
    """Where no sensor tells power it is an empty list, which is said once; all else is measured."""
    code = """
        import time
        from vedette.compat.heflwr.monitor.PLACE_monitor import FileMonitor
        for _ in range(2):
            monitor = FileMonitor("log.txt", 0.05)
            monitor.set_metrics(power=True)
            monitor.start()
            time.sleep(0.3)
            monitor.stop()
        print(monitor.stats())
    """
    done = script(tmp_path, code.replace("PLACE", place))
    found = ast.literal_eval(done.stdout)
    if found["power_vdd_in"]:
        pytest.skip("this machine tells its power")

    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "power" in done.stderr
    assert len(found["cpu_usage"]) > 1
    assert found["power_vdd_soc"] == []


def test_power_in_milliwatts():
    """Power is in mW by rail, and its sum is energy in mJ over the time that has really passed."""
    stats = {"t": [0, 1, 3], "host_power_w[group=in]": [4.0, 5.0, None], "cpu_percent": [50.0, 50.0, 50.0]}
    summary = {"host_energy_j[group=in]": {"total": 16.0}, "cpu_percent": {"mean": 50.0}, "seconds": 3.0}
    found = Account().plus(("cpu", "power"), [], stats, summary)

    assert found.stats["power_vdd_in"] == [4000.0, 5000.0]
    assert found.stats["memory_usage"] == found.stats["power_vdd_soc"] == []
    assert found.summary["total_power_vdd_in"] == 16000.0
    assert Account().plus(("cpu",), [], stats, summary).summary["total_power_vdd_in"] == 0


def test_averages_go_by_time():
    """The average over two starts weighs each by how long it was measured."""
    found = Account()
    for mean, seconds in ((10.0, 9.0), (100.0, 1.0)):
        found = found.plus(("cpu",), [], {}, {"cpu_percent": {"mean": mean}, "seconds": seconds})

    assert found.summary["avg_cpu_usage"] == pytest.approx(19.0)


@BOTH
def test_metrics_that_change(place, tmp_path):
    """What is set while it runs holds from then on; what was measured before stays."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), 0.05)
    monitor.start()
    eventually(lambda: len(monitor.stats()["cpu_usage"]) > 1)
    monitor.set_metrics(cpu=False)
    before = monitor.stats()
    eventually(lambda: len(monitor.stats()["memory_usage"]) > len(before["memory_usage"]) + 1)
    monitor.stop()

    assert monitor.stats()["cpu_usage"] == before["cpu_usage"]
    assert (tmp_path / "log.txt").read_text().splitlines()[-1].startswith("Memory Usage")


def test_a_process_that_is_gone(tmp_path, capfd):
    """To watch a process that is not there is said, and raises nothing."""
    child = subprocess.Popen(["true"])
    child.wait()
    monitor = thread_monitor.FileMonitor(str(tmp_path / "log.txt"), 0.05)
    monitor.pid = child.pid
    monitor.start()
    monitor.stop()

    assert str(child.pid) in capfd.readouterr().err
    assert monitor.stats()["cpu_usage"] == []


@pytest.mark.parametrize("place", ["process", "thread"])
def test_a_file_that_cannot_be_written(tmp_path, place):
    """What cannot be written is said in one sentence, and measured all the same."""
    code = QUICK_START.replace("PLACE", place).replace("./log.txt", "./there/is/none.txt")
    done = script(tmp_path, textwrap.dedent(MAIN_LOGIC).replace("METHOD", "fork") + textwrap.dedent(code))

    assert done.returncode == 0
    assert ast.literal_eval(done.stdout.splitlines()[1])["avg_cpu_usage"] > 1
    assert done.stderr.startswith("vedette: ")
    assert done.stderr.count("\n") == 1
    assert "there/is/none.txt" in done.stderr


def scrape(port):
    """Return the gauges that are served: name -> (help, value)."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
    said = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\w+) (.*)$", text, re.MULTILINE))
    assert set(kinds.values()) <= {"gauge"}
    return {name: (said[name], float(value)) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


@BOTH
def test_prometheus(place):
    """Gauges have the original's names and help, several monitors serve at once, and a port is free after stop()."""
    ports = [reserve_port(), reserve_port()]
    monitors = [place.PrometheusMonitor(port, 0.1) for port in ports]
    for _ in range(2):
        for monitor in monitors:
            monitor.start()
        for monitor, port in zip(monitors, ports, strict=True):
            eventually(lambda monitor=monitor: len(monitor.stats()["cpu_usage"]) > 1)
            found = eventually(lambda port=port: scrape(port))
            assert {name: words for name, (words, _) in found.items()} == {
                "cpu_usage": "CPU usage percentage", "memory_usage": "Memory usage percentage",
                "bytes_sent": "Bytes sent", "bytes_recv": "Bytes recv",
            }  # fmt: skip
        for monitor, port in zip(monitors, ports, strict=True):
            memory = [scrape(port)["memory_usage"][1]]
            monitor.stop()
            assert any(one == pytest.approx(memory[0]) for one in monitor.stats()["memory_usage"])
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", port), 60)


def test_prometheus_stays_at_home(capfd):
    """A wider address than loopback is refused without a token and a certificate, in a sentence."""
    port = reserve_port()
    monitor = thread_monitor.PrometheusMonitor(port, 0.05, host="0.0.0.0")
    monitor.start()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 60)
    monitor.stop()

    assert "token" in capfd.readouterr().err


@BOTH
def test_a_port_that_is_taken(place, capfd):
    """Two that want the same port: the second says so, measures, and does not raise."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monitor = place.PrometheusMonitor(taken.getsockname()[1], 0.05)
        monitor.start()
        eventually(lambda: len(monitor.stats()["cpu_usage"]) > 1)
        monitor.stop()

    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert "listened on" in err


@BOTH
def test_remote(place, server):
    """Each sample is posted as the original posts it, in either form."""
    short = place.RemoteMonitor(server.host, 0.1, "client A")
    whole = place.RemoteMonitor(host=server.host, interval=0.1, identifier="client B", simple=False)
    for monitor in (short, whole):
        monitor.start()
    eventually(lambda: {path for path, _ in server.heard} == {"/simple_log", "/log"})
    for monitor in (short, whole):
        monitor.stop()
    heard = list(server.heard)

    simple = [fields for path, fields in heard if path == "/simple_log"]
    full = [fields for path, fields in heard if path == "/log"]
    line = LINE.replace("CPU", "Cpu")
    assert all(list(fields) == ["identifier", "message"] for fields in simple)
    assert {fields["identifier"] for fields in simple} == {"client A"}
    assert {fields["identifier"] for fields in full} == {"client B"}
    assert all(re.fullmatch(line.rstrip(), fields["message"].strip()) for fields in simple + full)
    assert {"name", "levelname", "created", "process", "asctime"} <= full[0].keys()


@pytest.mark.parametrize("place", ["process", "thread"])
def test_remote_that_is_away(tmp_path, place):
    """A server that is down costs nothing but a sentence, and gets what it missed when it is back."""
    code = """
        import http.server, threading, time
        from vedette.compat.heflwr.monitor.PLACE_monitor import RemoteMonitor
        heard = []
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                heard.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()
            def log_message(self, *_):
                pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        server.server_bind()  # nobody listens yet
        monitor = RemoteMonitor(f"127.0.0.1:{server.server_address[1]}", 0.1)
        monitor.start()
        while len(monitor.stats()["cpu_usage"]) < 4:
            time.sleep(0.01)
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while len(heard) < 5:
            time.sleep(0.05)
        monitor.stop()
    """
    done = script(tmp_path, code.replace("PLACE", place))

    assert done.returncode == 0
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


@pytest.fixture
def fresh_log():
    """The logger, which is at the end as it is after import."""
    before = list(log.logger.handlers)
    yield log.logger
    for handler in [one for one in log.logger.handlers if one not in before]:
        log.logger.removeHandler(handler)
        handler.close()


def test_log_to_a_file(fresh_log, tmp_path):
    """Records go to a file in the original's format; to configure again does not write them twice."""
    path = tmp_path / "log.txt"
    for identifier in ("client A", "client B"):
        log.configure(identifier, file=str(path))
    log.logger.info("hello %s", "world")
    log.log(logging.ERROR, "bad")

    first, second = path.read_text().splitlines()
    assert re.fullmatch(r"client B \| INFO HeFlwr [\d-]+ [\d:,]+ \| test_heflwr\.py:\d+ \| hello world", first)
    assert second.endswith("| bad")


def test_log_to_a_server(fresh_log, server):
    """Records are posted whole, or in short; nothing goes to a server of before."""
    log.configure("client A", host=server.host)
    log.logger.warning("first %d", 1)
    eventually(lambda: len(server.heard) == 1)
    log.configure("client B", host=server.host, simple=True)
    log.logger.info("second")
    eventually(lambda: len(server.heard) == 2)

    (path, whole), short = server.heard
    assert (path, whole["identifier"], whole["message"], whole["msg"]) == ("/log", "client A", "first 1", "first %d")
    assert whole["filename"] == "test_heflwr.py"
    assert short == ("/simple_log", {"identifier": "client B", "message": "second"})


def test_log_to_nobody(fresh_log, capfd):
    """A server that is away is no error, and holds up nobody."""
    log.configure("client A", host="127.0.0.1:9", simple=True)
    for _ in range(100):
        log.logger.debug("lost")

    assert "Traceback" not in capfd.readouterr().err


def test_simple_without_a_host(fresh_log):
    """It is warned of what has no meaning, in the original's words."""
    with pytest.warns(
        UserWarning, match=r"^Simple mode is specified without a host\. No HTTP handler will be added\.$"
    ):
        log.configure("client A", simple=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log.configure("client A", host="127.0.0.1:9", simple=True)


def test_log_is_on_stdout(tmp_path):
    """What is logged is on stdout, once, as it comes from the import."""
    done = script(tmp_path, "from vedette.compat.heflwr.log import logger, log, configure\nlogger.debug('one')\n")

    assert re.fullmatch(r"DEBUG HeFlwr [\d-]+ [\d:,]+ \| job\.py:2 \| one\n", done.stdout)
    assert done.stderr == ""
