"""Run after a power cut, in the home that is left: start a hub, read everything, print it as one JSON object."""

import json
import os
import sys
import time

from vedette import settings, wire
from vedette.access.hub_socket import ask
from vedette.cli.doctor import examine
from vedette.cli.hub import _stop
from vedette.home import Home
from vedette.query.runs import RunView, select
from vedette.store.sqlite_file import open_reader


def main() -> None:
    """Read the home named by VEDETTE_HOME."""
    home = Home(os.environ["VEDETTE_HOME"])
    home.prepare()
    for name in os.listdir(home.spool):
        os.utime(os.path.join(home.spool, name), (1, 1))  # as if the power was off for longer than a minute
    ask(home, wire.Seal(""))
    deadline = time.monotonic() + 20
    while _spools(home) - set(ask(home, wire.AskHealth()).set_aside) and time.monotonic() < deadline:
        time.sleep(0.02)
    store = open_reader(home.store)
    found = {
        "runs": {view.name: _all_of(view) for view in select(store)},
        "integrity": [row[0] for row in store.connection.execute("PRAGMA integrity_check")],
        "doctor": {what: said for what, said, _ in examine(settings.load())},
        "damaged": sum(row.damaged for row in store.origins()),
        "set_aside": list(ask(home, wire.AskHealth()).set_aside),
        "left": sorted(_spools(home)),
    }
    store.close()
    _stop(home, quiet=True)
    json.dump(found, sys.stdout)


def _spools(home: Home) -> set[str]:
    """Return the spools, without those of hubs."""
    return {name for name in os.listdir(home.spool) if not name.startswith("hub-")}


def _all_of(view: RunView) -> dict[str, object]:
    points = {row.name: view.history(row.name) for row in view.series()}
    return {
        "state": view.state,
        "series": {name: [part.step.tolist(), part.value.tolist()] for name, part in points.items()},
        "marks": [int(event.text) for event in view.logs() if event.kind == "mark"],
    }


if __name__ == "__main__":
    main()
