"""check home, hub (started if needed), disk and versions; say what is wrong and what to do
examples:
  vedette doctor
  vedette doctor --json
"""

import argparse
import os
import platform
import shutil
import sqlite3
import time

from msgspec.structs import asdict

from vedette import address as addresses
from vedette import kernel, wire
from vedette.access.home_access import HomeAccess
from vedette.access.hub_socket import last_line
from vedette.cli import doctor_home
from vedette.cli.output import print_json
from vedette.cli.store_check import check_store
from vedette.errors import HubError, VedetteError
from vedette.fileio import file_size
from vedette.home import Home
from vedette.query.retention import due
from vedette.query.runs import SKEWED_S
from vedette.query.weight import Weights
from vedette.segment import list_segments, origin_of, segment_name
from vedette.settings import Keep, Settings
from vedette.store.sqlite_file import VERSION
from vedette.tail import written_until
from vedette.version import __version__
from vedette.views.text import clean, duration, size

_LOW_BYTES = 1 << 30


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Examine; exit with 1 when something is wrong."""
    checks = examine(args.settings)
    if args.json:
        print_json([{"what": what, "found": found, "advice": advice} for what, found, advice in checks])
    else:
        for what, found, advice in checks:
            print(f"{'!' if advice else ' '} {what:<10} {clean(found)}")
            if advice:
                print(f"             -> {clean(advice)}")
        print("all is well" if not any(advice for _, _, advice in checks) else "see the lines with a !")
    return 1 if any(advice for _, _, advice in checks) else 0


def examine(settings: Settings) -> list[tuple[str, str, str]]:
    """Return (what, what was found, what to do about it or "") for each thing worth a look."""
    home = Home.of(settings)
    system = (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.release()}"
    )
    checks = [
        ("versions", f"vedette {__version__}, wire {wire.VERSION}, store {VERSION}, {system}", ""),
        *doctor_home.examine(home),
    ]
    if os.path.isdir(home.root):
        checks += [_disk(home), *([] if home.is_foreign else _hub(home)), *_spool(home), *check_store(home)]
    return [*checks, _exit_status(), *_sensors()]


def _exit_status() -> tuple[str, str, str]:
    """Report who learns here how a process ended."""
    if kernel.tells_exit_status():
        return "ends", "the kernel tells how every process ended", ""
    found = (
        "this kernel tells only its parent how a process ended (others since Linux 6.15): Python programs note their"
        " exit codes themselves; a run that is killed, or ends by os._exit, is `ended`, unless `vedette run` started it"
    )
    return "ends", found, ""


def _sensors() -> list[tuple[str, str, str]]:
    """Report what can be measured here, and why something cannot."""
    from vedette.sensing.sensor import Target
    from vedette.sources.sampler import find, known

    sensors, absent = find(known(), Target(os.getpid()))
    for sensor in sensors.values():
        sensor.close()
    return [
        ("sensors", ", ".join(sensors) or "none", ""),
        *(("sensors", f"no {name}: {why}", "") for name, why in absent.items()),
    ]


def _disk(home: Home) -> tuple[str, str, str]:
    free = shutil.disk_usage(home.root).free
    low = free < _LOW_BYTES
    return "disk", f"{size(free)} free", f"less than {size(_LOW_BYTES)}: make room" if low else ""


def _hub(home: Home) -> list[tuple[str, str, str]]:
    try:
        health = HomeAccess(home).health()
    except HubError as error:
        tail = last_line(home.log)
        return [("hub", f"{error}" + (f"; the last line of its log: {tail}" if tail else ""),
                 "see `store` below, or run `vedette hub`; what is logged meanwhile waits in the spool")]  # fmt: skip
    if health is None:
        return [("hub", "did not answer with its health", "vedette hub --stop")]
    checks = [
        ("hub", (f"pid {health.pid}, version {health.version}, up {duration(health.up_s)}, {health.living} living "
            f"{'process' if health.living == 1 else 'processes'}, {size(health.waiting_bytes)} waiting to be sealed"
            + (f"; it was once busy for {duration(health.longest_turn_s)}" if health.longest_turn_s > 1 else "")),
         f"it cannot commit: {health.trouble}" if health.trouble else ""),
    ]  # fmt: skip
    checks += _kept(home, health)
    checks += [
        (
            "set aside",
            f"{name}: {why}",
            _set_aside_advice(home, name, why),
        )
        for name, why in health.set_aside.items()
    ]
    if health.sent_trouble:
        advice = "`vedette hub --status` says who relays, and how much of it was refused"
        checks.append(("link", health.sent_trouble, advice))
    checks += [("helper", trouble, f"{home.log} says more") for trouble in health.helpers]
    checks += _other_hubs(health)
    mode = os.stat(home.socket).st_mode & 0o777
    if mode != 0o600:
        checks.append(("socket", f"{home.socket} has mode {mode:o}", f"chmod 600 {home.socket}"))
    if health.version != __version__:
        checks.append(("hub", f"is version {health.version}, this is {__version__}", "vedette hub --stop"))
    return checks


def _other_hubs(health: wire.Health) -> list[tuple[str, str, str]]:
    checks = []
    if health.listens:
        checks.append(("listens", f"at {health.listens}; how to connect is in hub.connect", ""))
    if health.deaf:
        advice = "give another address (hub.address, hub.listen), or stop the program that uses it; the hub tries again"
        checks.append(("listens", health.deaf, advice))
    for host, skew_s in health.links:
        known = "" if skew_s is None else f", its clock is {abs(skew_s):.3f} s {'ahead' if skew_s > 0 else 'behind'}"
        off = skew_s is not None and abs(skew_s) >= SKEWED_S
        advice = "set the clocks by NTP: times are shown as each machine reported them" if off else ""
        checks.append(("link", f"{host} relays to this hub{known}", advice))
    for address, trouble in health.relays:
        checks.append(("relay", f"to {address}: {trouble or 'connected'}", _relay_advice(trouble)))
    for limit, count in health.refused.items():
        if count:
            advice = f"raise {limit}" if limit.startswith("limits.") else ""
            checks.append(("refused", f"{count} by {limit}", advice))
    return checks


def _kept(home: Home, health: wire.Health) -> list[tuple[str, str, str]]:
    """Report what the hub removes by itself, what it has removed, and what it will remove next."""
    words = [
        f"keep.{name} is {size(value) if name.endswith('_bytes') else f'{value:g}'}"
        for name, value in asdict(health.keep).items()
        if value
    ]
    words = ["; ".join(words) if words else "all runs are kept: no keep.* is set"]
    try:
        access = HomeAccess(home)
        store = access.reader()
        found = due(store, access.blobs, health.keep, time.time_ns())
        if health.keep != Keep():
            weight = Weights(store, access.blobs).free([run.id for run in found])
            words.append(f"{len(found)} {'run is' if len(found) == 1 else 'runs are'} due, {size(weight)}")
        total, left = store.connection.execute("SELECT count(*), coalesce(sum(left), 0) FROM purges").fetchone()
        if total:
            words.append(f"{total} {'was' if total == 1 else 'were'} removed for good, by the hub or by hand")
        if left or health.sweeping:
            words.append(f"{left} of them are still being deleted" if left else "the disk space is being freed")
    except VedetteError:
        pass  # `check_store` reports what is wrong with the store
    advice = f"it cannot remove what is due: {health.sweep_trouble}" if health.sweep_trouble else ""
    return [("keep", "; ".join(words), advice)]


def _set_aside_advice(home: Home, name: str, why: str) -> str:
    path = os.path.join(home.root if name.startswith("inbox/") else home.spool, name)
    if "upgrade" in why:
        return "upgrade vedette"
    if "address of a hub" in why or "connect string" in why or "HOST:PORT" in why:
        return f"`vedette sync {path}` keeps it here"
    return f"look at {path}"


def _relay_advice(trouble: str) -> str:
    if not trouble:
        return ""
    if any(word in trouble for word in ("token", "certificate", "fingerprint", "hung up")):
        return (
            "give new jobs the whole connect string of that hub in VEDETTE_HUB; what waits here goes to another address"
            " with `vedette hub --stop` and `vedette hub --set hub.reroute=@FILE`, where FILE has its connect string"
        )
    return "what is logged waits on this disk until it answers"


def _spool(home: Home) -> list[tuple[str, str, str]]:
    names = os.listdir(home.spool) if os.path.isdir(home.spool) else []
    total = sum(
        file_size(os.path.join(home.spool, name, segment_name(lane, offset)))
        for name in names
        for lane in "fs"
        for offset in list_segments(os.path.join(home.spool, name), lane)
    )
    found = [("spool", f"of {len(names)} {'process' if len(names) == 1 else 'processes'}, {size(total)}", "")]
    return found + _waiting(home, names)


def _waiting(home: Home, names: list[str]) -> list[tuple[str, str, str]]:
    """Report what was logged for other hubs and is not with them yet."""
    try:
        marks = HomeAccess(home).reader().marks(names)
    except VedetteError:
        marks = {}
    sizes: dict[str, list[int]] = {}
    for name in names:
        directory = os.path.join(home.spool, name)
        if upstream := _upstream(directory):
            places = [(lane, marks[name, f"{lane}>"].offset if (name, f"{lane}>") in marks else 0) for lane in "fs"]
            unsent = sum(max(0, written_until(directory, lane, place) - place) for lane, place in places)
            sizes.setdefault(upstream, []).extend([unsent] if unsent else [])
    found: list[tuple[str, str, str]] = []
    for upstream, waits in sizes.items():
        if waits:
            who = "1 process" if len(waits) == 1 else f"{len(waits)} processes"
            what = f"{size(sum(waits))} of {who} for {upstream}: a hub sends it there, as soon as that answers"
            found.append(("waits", what, ""))
    return found


def _upstream(directory: str) -> str:
    """Return the hub that a spool is meant for, without its token; empty for the hub of this home."""
    try:
        origin = origin_of(directory)
        return str(addresses.parse(origin.upstream)) if origin is not None and origin.upstream else ""
    except (OSError, VedetteError):
        return ""
