"""Who keeps a home, and which hubs relay to it: what `vedette hub --status` prints. Not a command itself."""

import time

from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.cli.output import print_json, table
from vedette.errors import HubError, NotFoundError
from vedette.home import Home
from vedette.store.rows import RelayRow
from vedette.tokens import OWNER_NAME, holders
from vedette.views.text import counted, duration, moment, number

_MOST_SHOWN = 50  # relays: a home that a job made for itself has one of its own
_ID_CHARS = 8


def print_status(home: Home, *, json: bool) -> None:
    """Print the hub of a home, if it has one, and all that have ever relayed to it. It starts nothing."""
    access = HomeAccess(home)
    health = _health(access)
    try:
        relays = access.reader().relays()
    except NotFoundError:
        relays = []
    connected = set(health.relaying) if health is not None else set()
    if json:
        print_json(
            {
                "home": home.root,
                "pid": health.pid if health is not None else None,
                "listens": health.listens if health is not None else "",
                "relays": [_as_json(relay, relay.id in connected) for relay in relays],
            }
        )
        return
    print(_about(home, health))
    if not relays:
        print("no other hub has ever relayed to it: `vedette token --new NAME` invites one")
        return
    shown = relays[:_MOST_SHOWN]
    known = {"", *(holder.name for holder in holders(home))}
    now_t = time.time_ns()
    table(
        ["RELAY", "HOLDER", "HOST", "HEARD", "SINCE", "FACTS", "POINTS", "REFUSED"],
        [
            [
                relay.id[:_ID_CHARS],
                (relay.holder or OWNER_NAME) + ("" if relay.holder in known else " (revoked)"), relay.host,
                "connected" if relay.id in connected else f"{duration((now_t - relay.heard_t) / 1e9)} ago",
                moment(relay.since_t), number(relay.facts), number(relay.points), number(relay.refused),
            ]
            for relay in shown
        ],
        right=["FACTS", "POINTS", "REFUSED"],
        shrink=["HOST", "HOLDER"],
        drop=["FACTS"],
    )  # fmt: skip
    if len(relays) > len(shown):
        print(f"and {counted(len(relays) - len(shown), 'relay')} that were heard of before: --json lists all")


def _health(access: HomeAccess) -> wire.Health | None:
    try:
        return access.health() if access.has_hub() else None
    except HubError:
        return None


def _about(home: Home, health: wire.Health | None) -> str:
    if health is None:
        hub = home.hub()
        return f"hub {hub} of {home.root} does not answer" if hub else f"no hub keeps {home.root} now"
    where = f", listens at {health.listens}" if health.listens else ", listens on this machine only"
    return f"hub {health.pid} keeps {home.root}, up {duration(health.up_s)}{where}"


def _as_json(relay: RelayRow, connected: bool) -> dict[str, object]:
    return {
        "id": relay.id, "holder": relay.holder or OWNER_NAME, "host": relay.host, "connected": connected,
        "since_t": relay.since_t, "heard_t": relay.heard_t, "facts": relay.facts, "points": relay.points,
        "refused": relay.refused,
    }  # fmt: skip
