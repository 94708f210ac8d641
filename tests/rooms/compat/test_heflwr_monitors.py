"""heflwr's monitors and its log, in this process: one class over three sinks, in a thread or beside the program."""

import logging
import warnings

import pytest

from tests.journeys.conftest import eventually
from tests.rooms.compat.test_form_sink import Receiver
from vedette.compat.heflwr import log
from vedette.compat.heflwr.monitor import process_monitor, thread_monitor

PLACES = [thread_monitor, process_monitor]


@pytest.fixture
def receiver():
    """A server that notes what it gets."""
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("place", PLACES)
def test_into_a_file(place, tmp_path):
    """Each moment is a line; the lists and sums are of all that was measured, over two starts."""
    monitor = place.FileMonitor(str(tmp_path / "log.txt"), interval=0.05)
    assert monitor.stats()["cpu_usage"] == []
    for starts in (1, 2):
        monitor.start()
        monitor.start()
        before = len(monitor.stats()["cpu_usage"])
        eventually(lambda before=before: len(monitor.stats()["cpu_usage"]) >= before + 2)
        assert monitor.monitoring if place is thread_monitor else monitor.monitoring.is_set()
        monitor.stop()
        assert len((tmp_path / "log.txt").read_text().splitlines()) >= 2 * starts
    assert len(monitor.stats()["memory_usage"]) == len(monitor.stats()["cpu_usage"]) >= 4
    assert monitor.summary()["avg_memory_usage"] > 0


@pytest.mark.parametrize("place", PLACES)
def test_for_prometheus_and_a_server(place, receiver):
    """The same class measures for a page, and posts to a server; both let go when they are stopped."""
    page = place.PrometheusMonitor(port=0, interval=0.05)
    remote = place.RemoteMonitor(f"127.0.0.1:{receiver.port}", interval=0.05, identifier="me")
    for monitor in (page, remote):
        monitor.start()
    eventually(lambda: receiver.got)
    for monitor in (page, remote):
        monitor.stop()
    assert b"identifier=me" in receiver.got[0][2]
    assert (page.thread if place is thread_monitor else page.monitor_process) is not None


def test_what_is_no_setting(tmp_path):
    """Wrong arguments raise what the original raises, or a sentence where it would have died in silence."""
    for interval, error in ((True, TypeError), ("5", TypeError), (-1, ValueError), (float("nan"), ValueError)):
        with pytest.raises(error):
            thread_monitor.FileMonitor("x", interval=interval)
    with pytest.raises(TypeError):
        thread_monitor.PrometheusMonitor(port="8003")
    with pytest.raises(TypeError):
        thread_monitor.RemoteMonitor(host=None)
    monitor = thread_monitor.FileMonitor(str(tmp_path / "log.txt"))
    with pytest.raises(ValueError, match="not supported"):
        monitor.set_metrics(fish=True)
    with pytest.raises(TypeError, match="must be a boolean"):
        monitor.set_metrics(cpu=1)


def test_metrics_are_chosen_while_it_runs(tmp_path):
    """What is switched off is measured no more from then on, and its list stays as it was."""
    monitor = thread_monitor.FileMonitor(str(tmp_path / "log.txt"), interval=0.05)
    monitor.start()
    eventually(lambda: monitor.stats()["cpu_usage"])
    monitor.set_metrics(cpu=False)
    count = len(monitor.stats()["cpu_usage"])
    more = len(monitor.stats()["memory_usage"])
    eventually(lambda: len(monitor.stats()["memory_usage"]) > more)
    monitor.stop()
    assert len(monitor.stats()["cpu_usage"]) == count


def test_the_log(tmp_path, receiver):
    """What is logged also goes to a file and to a server; a later `configure` takes the place of an earlier one."""
    kept = log.logger.handlers[:]
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            log.configure("me", simple=True)
        assert len(warned) == 1
        for name in ("other.txt", "log.txt"):
            log.configure("me", file=str(tmp_path / name), host=f"127.0.0.1:{receiver.port}", simple=name != "log.txt")
        log.log(logging.WARNING, "hello %s", "you")
        eventually(lambda: receiver.got)
        assert "me | WARNING HeFlwr" in (tmp_path / "log.txt").read_text()
        assert (tmp_path / "other.txt").read_text() == ""
        path, _, body = receiver.got[0]
        assert path == "/log"
        assert b"message=hello+you" in body
    finally:
        for handler in [one for one in log.logger.handlers if one not in kept]:
            log.logger.removeHandler(handler)
            handler.close()
