"""edit a run afterwards: its name, description, notes, star and tags
examples:
  vedette edit brisk-otter-417 --star --tag best --description "the one for the paper"
  vedette edit 2pg66 --untag best --no-star
  vedette edit 2pg66 --name baseline --notes "lr was too high"

An empty text removes a description or notes. `vedette show` prints them, and `--where "star and tag.best"` finds such
runs.
"""

import argparse

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json
from vedette.errors import VedetteError
from vedette.model import Value
from vedette.query.edits import attrs_of
from vedette.query.runs import RunView
from vedette.query.runs import view as find_view
from vedette.views.text import clean


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", nargs="+", help="an id, the beginning of one, or a name; or several").completer = (  # type: ignore[attr-defined]
        complete_runs
    )
    parser.add_argument("--name", help="its new name")
    parser.add_argument("--description", metavar="TEXT", help="what it is, in a line or more")
    parser.add_argument("--notes", metavar="TEXT", help="its notes; they replace the old ones")
    parser.add_argument("--star", action=argparse.BooleanOptionalAction, help="star it, or remove the star")
    parser.add_argument("--tag", action="append", default=[], metavar="T", help="add a tag; can be repeated")
    parser.add_argument(
        "--untag", action="append", default=[], metavar="T", help="remove a tag; can be repeated"
    ).completer = _complete_tags  # type: ignore[attr-defined]
    parser.add_argument("--json", action="store_true", help="as a JSON list of what the runs are now")


def run(args: argparse.Namespace) -> int:
    """Send the edit to the hub, and print the runs as they are now."""
    attrs = _attrs(args)
    store = open_home(args.settings, glance=True)
    runs = {
        found.id: found
        for found in (find_view(store, text, lost_after_s=args.settings.lost_after_s) for text in args.RUN)
    }
    store.close()
    HomeAccess.of(args.settings).edit(list(runs), attrs)
    store = open_home(args.settings, glance=True)
    edited = [find_view(store, id_, lost_after_s=args.settings.lost_after_s) for id_ in runs]
    if args.json:
        print_json([_as_dict(one) for one in edited])
    else:
        for one in edited:
            print(f"{one.id}  {clean(_line(one), one_line=True)}")
    store.close()
    return 0


def _attrs(args: argparse.Namespace) -> dict[str, Value]:
    if both := set(args.tag) & set(args.untag):
        raise VedetteError(f"{min(both)!r} is in both --tag and --untag")
    tags = dict.fromkeys(args.tag, True) | dict.fromkeys(args.untag, False)
    attrs = attrs_of(name=args.name, description=args.description, notes=args.notes, star=args.star, tags=tags)
    if not attrs:
        raise VedetteError(
            "nothing to change: give --name, --description, --notes, --star, --no-star, --tag or --untag"
        )
    return attrs


def _line(view: RunView) -> str:
    tags = f"  [{', '.join(view.tags)}]" if view.tags else ""
    text = str(view.attrs.get("description") or "")
    return f"{'* ' if view.attrs.get('star') else ''}{view.name}{tags}{'  ' + text if text else ''}"


def _as_dict(view: RunView) -> dict[str, object]:
    return {
        "id": view.id, "name": view.name, "star": bool(view.attrs.get("star")), "tags": view.tags,
        "description": view.attrs.get("description") or "", "notes": view.attrs.get("notes") or "",
    }  # fmt: skip


def _complete_tags(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    try:
        from vedette.query.runs import view
        from vedette.settings import load

        store = HomeAccess.of(load({"home": parsed_args.home})).reader()
        return [tag for text in parsed_args.RUN for tag in view(store, text).tags if tag.startswith(prefix)]
    except Exception:
        return []
