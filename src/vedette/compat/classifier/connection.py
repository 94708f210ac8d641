"""Where a call's records go: to the server that it names, or to this home, whose hub may be a server for others."""

import os
import socket
import subprocess

from vedette import address as addresses
from vedette import detached, host_port, settings, unix_socket
from vedette.access.home_access import HomeAccess
from vedette.compat.classifier.report import say
from vedette.compat.classifier.server import HUB
from vedette.compat.classifier.setting import Chosen
from vedette.errors import SettingError
from vedette.guard import is_loopback
from vedette.home import Home

_PATIENCE_S = 2.0


def connect(chosen: Chosen) -> bool:
    """Connect the run to the given server, or make our own hub listen; tell whether it listens for this call."""
    wanted = bool(chosen.get("Monitor", "connect"))
    if not chosen.is_set("Monitor", "address") and not wanted:
        return False
    given = chosen.is_set("Monitor", "address")
    text = ("" if given else settings.load().upstream) or str(chosen.get("Monitor", "address"))
    if given and settings.has_token(text):
        raise SettingError(
            "every user of this machine can read a token on a command line, so it is refused there: put the whole"
            " vedette://... that the server printed into VEDETTE_HUB, and leave out the address"
        )
    address = addresses.parse(text, listening=True)
    home = Home.of(settings.load())
    if not wanted:
        return _listen(text)
    if not address.path and not address.host:  # `:10200` is a port of this machine
        text = f"localhost{text}"
        address = addresses.parse(text)
    here = not address.path and (is_loopback(address.host) or address.host in host_port.own_names())
    if here and _listens_at(home, address.port):
        _keep_here(home)
        return False
    os.environ["VEDETTE_HUB"] = address.path or text
    known = addresses.parse(settings.load().upstream)
    answers = _answers(known)
    if not known.path and not known.token and here and not answers:
        _keep_here(home)
        say(
            f"no server answers at {known}: what is logged is kept in {home.root}, and a server that you start there"
            " shows it"
        )
        return False
    secure = known.is_local or bool(known.fingerprint) or settings.load().hub.trusted_network
    if not known.path and not (known.token and secure):
        found = "" if answers else f"no server answers at {known}; and "
        raise SettingError(
            f"{found}{known} needs a token and a certificate fingerprint: put the whole vedette://... that the server"
            " printed into VEDETTE_HUB, and leave out the address"
        )
    if not answers:
        say(f"no server answers at {known}: what is logged waits in {home.root}, and is sent when one does")
    return False


def _listens_at(home: Home, port: int) -> bool:
    """Tell whether this home's own hub listens at a port: to reach it needs no network."""
    own = _listening_address(home)
    return own is not None and not own.path and own.port == port


def _listening_address(home: Home) -> addresses.Address | None:
    """Return where this home's hub listens for others; None if it does not."""
    try:
        with open(home.connect) as file:
            return addresses.parse(file.read()) if home.hub_pid() is not None else None
    except (OSError, ValueError, SettingError):
        return None


def _keep_here(home: Home) -> None:
    """Have the run kept in this home, whatever hub the environment or a file names."""
    os.environ.pop("VEDETTE_HUB", None)
    if settings.load().upstream:
        os.environ["VEDETTE_HUB"] = home.socket


def _answers(address: addresses.Address) -> bool:
    """Tell whether anybody answers at an address."""
    try:
        if address.path:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(_PATIENCE_S)
                unix_socket.connect(peer, address.path)
        else:
            socket.create_connection((address.host, address.port), _PATIENCE_S).close()
    except OSError:
        return False
    return True


def _listen(text: str) -> bool:
    """Make this home's hub listen at an address; return False if it already listened."""
    home = Home.of(settings.load({"hub.address": text}))
    own, asked = _listening_address(home), addresses.parse(text, listening=True)
    if own is not None:
        if asked.path != own.path or asked.port not in (0, own.port):
            say(f"the hub of {home.root} listens at {own} already, and stays there")
        return False
    stop_hub()
    health = HomeAccess(home).health()
    if health is not None and health.deaf:
        stop_hub()
        raise SettingError(health.deaf)
    return True


def stop_hub() -> None:
    """Stop this home's hub; another one starts when it is needed."""
    subprocess.run([*HUB, "--stop", "--quiet"], env=detached.environment(), check=False)
