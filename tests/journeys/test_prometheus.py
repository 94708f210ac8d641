"""A real Prometheus reads our page: what it has then is what was measured."""

import json
import os
import shutil
import urllib.parse
import urllib.request

import pytest

from tests.journeys.conftest import eventually
from tests.moments import METRICS, moment
from tests.once import once, with_the_run
from tests.ports import reserve_port
from vedette.monitor import Monitor
from vedette.sensing.sensor import flat_values
from vedette.sinks import prometheus
from vedette.sinks.prometheus import Config

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="PROMETHEUS IS NOT HERE: apt-get install prometheus")


def begin(folder):
    """Run a Prometheus that reads each page, each second, that a file in its folder names; tell its port, and where."""
    port = reserve_port()
    targets, config = folder / "targets", folder / "prometheus.yml"
    targets.mkdir()
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
        f"- {{job_name: vedette, file_sd_configs: [{{files: ['{targets}/*.json'], refresh_interval: 1s}}]}}\n"
    )
    with_the_run(
        PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    )  # fmt: skip
    return [port, str(targets)]


@pytest.fixture
def ask(tmp_path_factory):
    """Have a page read; ask for what came of it."""
    port, targets = once("prometheus", tmp_path_factory, begin)
    pages = []

    def read(page, query):
        path = os.path.join(targets, f"{page}.json")
        if not os.path.exists(path):
            pages.append(path)
            with open(path + ".new", "w") as file:
                json.dump([{"targets": [f"127.0.0.1:{page}"]}], file)
            os.rename(path + ".new", path)
        query = urllib.parse.urlencode({"query": query.replace("{", f'{{instance="127.0.0.1:{page}",')})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:  # it is on its way
            return []

    yield read
    for path in pages:
        os.unlink(path)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_monitor_that_is_scraped(where, ask):
    """Each value that a real Prometheus has read of a monitor is one of its stats(), counters and gauges alike."""
    series = {"vedette_process_cpu_seconds_total": "cpu_s", "vedette_process_memory_bytes": "memory_bytes"}
    with Monitor("prometheus:0", interval_s=0.5, where=where) as monitor:

        def history(name):
            rows = ask(monitor.ports[0], f"{name}{{}}[5m]")
            return [float(value) for row in rows for _, value in row["values"]]

        read = eventually(lambda: len(r := history(next(iter(series)))) >= 3 and r)
        told = {name: history(name) for name in series}
        stats = monitor.stats()

    assert len(read) >= 3
    for name, key in series.items():
        assert set(told[name]) <= set(stats[key]), name


def test_a_real_prometheus(ask):
    """A real Prometheus reads the page, and answers with exactly the values that were put."""
    sink = prometheus.open(Config(pid=77), METRICS)
    put = moment(4)
    sink.put(put)
    rows = eventually(lambda: ask(sink.port, '{__name__=~"vedette_.*"}'))
    sink.close()
    expected = flat_values(put)
    found = {
        (row["metric"]["__name__"], row["metric"].get("pid", ""), row["metric"].get("core", "")): float(row["value"][1])
        for row in rows
    }

    assert sorted(found.values()) == sorted(expected.values())
    assert len(found) == len(expected)
    assert found["vedette_process_cpu_seconds_total", "77", ""] == expected["cpu_s"]
    assert found["vedette_host_cpu_percent", "", "0"] == expected["host_cpu_percent[core=0]"]
