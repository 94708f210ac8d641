"""list, make, replace and revoke the tokens with which other machines connect to the hub of this home
examples:
  vedette token                      who has one
  vedette token --new alice          makes one, and prints the line for alice's shell, which sets VEDETTE_HUB
  vedette token alice                prints it again
  vedette token --revoke alice       her relays are sent away; everybody else stays
  vedette token --new                replaces your own: that of your relays, and that of the page
"""

import argparse
import sys
from typing import Any

import msgspec

from vedette import address, tokens
from vedette.cli.output import print_json, table
from vedette.errors import SettingError
from vedette.fileio import read_private, write_private
from vedette.home import Home
from vedette.settings import load
from vedette.views.text import clean, moment

_OWN = True  # what `--new` is without a name; with an empty one, as of a variable that is not set, it is a mistake


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    name = parser.add_argument("NAME", nargs="?", help="print the connect string of this holder again")
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--new", metavar="NAME", nargs="?", const=_OWN,
        help="make a token for somebody; without a name, replace your own: old pages and relays of yours end",
    )  # fmt: skip
    gone = one.add_argument("--revoke", metavar="NAME", help="end somebody's token")
    parser.add_argument("--json", action="store_true", help="as JSON")
    name.completer = gone.completer = _complete_holders  # type: ignore[attr-defined]


def run(args: argparse.Namespace) -> int:
    """List, make, print or revoke tokens."""
    home = Home.of(args.settings)
    if args.NAME is not None and (args.new is not None or args.revoke is not None):
        raise SettingError("give one name: `vedette token NAME`, or --new NAME, or --revoke NAME")
    if args.revoke is not None:
        if args.revoke == tokens.OWNER_NAME:
            raise SettingError("your own token can be replaced: `vedette token --new`")
        home.check_owner()
        tokens.revoke(home, args.revoke)
        return _tell(args, {"revoked": args.revoke}, f"the token of {args.revoke} was revoked; relays that use it end")
    if args.new is not None:
        home.prepare()
        if args.new is _OWN:
            return _show(args, home, tokens.OWNER_NAME, _renewed(home))
        return _show(args, home, args.new, tokens.new_holder(home, args.new))
    if args.NAME is not None:
        own = args.NAME == tokens.OWNER_NAME
        if own:
            home.prepare()
        return _show(args, home, args.NAME, tokens.hub_token(home) if own else tokens.token_of(home, args.NAME))
    holders = tokens.holders(home)
    if args.json:
        print_json([{"name": holder.name, "since_t": holder.since_t} for holder in holders])
    elif holders:
        table(["HOLDER", "SINCE"], [[holder.name, moment(holder.since_t)] for holder in holders])
    else:
        print("nobody but you has a token: `vedette token --new NAME` makes one")
    for path in tokens.odd_entries(home):
        sys.stderr.write(
            f"vedette: {clean(path, one_line=True)} is nobody's token, so nobody connects by it: remove it\n"
        )
    return 0


def _renewed(home: Home) -> str:
    """Replace the owner's tokens, also where the connect string of a running hub is read from."""
    token = tokens.renew(home)
    known, _ = _known_address(home)
    if known is not None:
        text = msgspec.structs.replace(known, token=token).connect_string()
        write_private(home.connect, text.encode() + b"\n", flush=False)
    return token


def _show(args: argparse.Namespace, home: Home, name: str, token: str) -> int:
    known, hint = _known_address(home)
    if known is None:
        if not args.json:
            sys.stderr.write(f"vedette: this is the token alone: {hint}\n")
        return _tell(args, {"name": name, "token": token}, token)
    text = msgspec.structs.replace(known, token=token).connect_string()
    return _tell(args, {"name": name, "token": token, "connect": text}, f"export VEDETTE_HUB={text}")


def _known_address(home: Home) -> tuple[address.Address | None, str]:
    """Return where the hub of a home listens for other machines; if that is not known, None, and why."""
    try:
        known = address.parse(read_private(home.connect).decode())
    except FileNotFoundError:
        known = None
    except (OSError, UnicodeDecodeError, SettingError):
        return None, f"{home.connect} is damaged: remove it, and begin the hub again, which says there where it listens"
    if known is None or known.path:
        return None, "no hub of this home listens now; while `vedette hub --address :7070` does, this prints all of it"
    return known, ""


def _tell(args: argparse.Namespace, data: dict[str, str], text: str) -> int:
    if args.json:
        print_json(data)
    else:
        print(text)
    return 0


def _complete_holders(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    home = Home.of(load({"home": getattr(parsed_args, "home", None)}))
    return [holder.name for holder in tokens.holders(home) if holder.name.startswith(prefix)]
