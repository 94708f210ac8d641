"""Nothing public goes undocumented, and what the documents show works."""

import argparse
import ast
import importlib
import inspect
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import vedette
from vedette import listeners, settings, sinks
from vedette.cli import build_parser, ls
from vedette.client.run import Run
from vedette.home import Home
from vedette.query import logs, where
from vedette.query.runs import RunView
from vedette.sources import SENSORS
from vedette.store.points_view import add_points_view
from vedette.store.sqlite import SqliteStore
from vedette.views.web.server import ROUTES

from .conftest import end_hub

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
SCHEMA = (ROOT / "docs" / "schema.md").read_text()
PAGES = {
    str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}


def sections(text, level):
    """Return the text below each heading of a level, up to the next heading of that level or a higher one."""
    parts = re.split(rf"^(#{{1,{level}}}) (.*)$", text, flags=re.MULTILINE)
    found = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return {title: body for marks, title, body in found if len(marks) == level}


def fenced(text, language):
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


HEADINGS = " ".join(sections(REFERENCE, 3))
COMMANDS = {title: body for title, body in sections(REFERENCE, 3).items() if title.startswith("vedette ")}
NOTED = REFERENCE.replace("`", "")


@pytest.mark.parametrize("name", vedette.__all__)
def test_public_verbs(name):
    """Every public verb has a heading of its own, with the parameters that it takes, and no others."""
    headings = [title for title in sections(REFERENCE, 3) if re.match(rf"vedette\.{name}\b", title)]

    assert len(headings) == 1
    if inspect.isclass(getattr(vedette, name)):
        for verb in public(vars(getattr(vedette, name))):
            assert re.search(rf"\b{name}\.{verb}\b|\bbar\.{verb}\b", NOTED), verb
    else:
        assert headings[0] == f"vedette.{name}{signature(getattr(vedette, name))}"


def signature(function, *, method=False):
    """Return a function's parameters and defaults as a user would type them."""
    found = inspect.signature(function)
    parameters = [item.replace(annotation=item.empty) for item in list(found.parameters.values())[int(method) :]]
    return str(found.replace(parameters=parameters, return_annotation=found.empty)).replace("'", '"')


def public(names):
    return sorted(name for name in names if not name.startswith("_"))


def attributes_of(cls):
    """Return the public names of a class, with those that its __init__ sets."""
    return public({*dir(cls), *re.findall(r"self\.(\w+)\b[^=\n]*? = ", inspect.getsource(cls.__init__))})


@pytest.mark.parametrize("name", attributes_of(Run))
def test_run(name):
    """Every public method and attribute of a Run is in the reference, methods with their parameters."""
    assert re.search(rf"\brun\.{name}\b", NOTED)
    method = getattr(Run, name, None)
    if inspect.isfunction(method) and f"run.{name}(" in HEADINGS:
        assert f"run.{name}{signature(method, method=True)}" in HEADINGS


def test_the_verbs_of_a_run_have_headings():
    """What users call on a Run is not hidden in a paragraph."""
    for name in ("log", "metric", "series", "mark", "progress", "finish"):
        assert f"run.{name}(" in HEADINGS


@pytest.mark.parametrize("name", attributes_of(RunView))
def test_run_view(name):
    """Every public method and property of a RunView is in a heading, methods with their parameters."""
    assert re.search(rf"\bview\.{name}\b", HEADINGS)
    method = getattr(RunView, name)
    if inspect.isfunction(method) and name != "logs":
        assert f"view.{name}{signature(method, method=True)}" in HEADINGS


def test_the_parameters_of_logs():
    """`view.logs` takes what the query takes, and the reference says so."""
    taken = inspect.signature(logs.lines).parameters.values()
    shown = re.search(r"^### view\.logs\((.*)\)$", REFERENCE, re.MULTILINE)[1]

    assert sorted(
        f"{item.name}={item.default!r}".replace("'", '"') for item in taken if item.name not in ("store", "run")
    ) == sorted(shown.split(", "))


@pytest.mark.parametrize(("key", "default"), settings.names().items())
def test_settings(key, default):
    """Every setting has a row with its default and its variable; the variable works."""
    variable = "VEDETTE_HUB" if key == "upstream" else "VEDETTE_" + key.replace(".", "_").upper()
    [row] = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{key}` |")]
    _, _, shown, variables, explained, _ = [cell.strip() for cell in row.split("|")]

    assert shown.strip("`") == (str(default) or "empty").replace("False", "false").replace("True", "true")
    assert f"`{variable}`" in variables
    assert explained
    value = {"mode": "off", "console.mode": "on", "spool.cap_share": 0.5, "upstream": "host:1"}.get(
        key, {str: "x", int: 5, float: 5.0, bool: True}[type(default)]
    )
    loaded = settings.load(environ={variable: str(value)})
    section, _, name = key.rpartition(".")
    assert getattr(getattr(loaded, section) if section else loaded, name) == value


def test_no_setting_is_made_up():
    """Every row of the table is a setting."""
    assert set(re.findall(r"^\| `([\w.]+)` \|", REFERENCE, re.MULTILINE)) == set(settings.names())


def test_variables():
    """Every variable that the code knows is in the reference, and every one in the documents is known to the code."""
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    known = set(re.findall(r"\bVEDETTE_[A-Z_]+\b", code))
    known |= {"VEDETTE_" + key.replace(".", "_").upper() for key in settings.names()}

    assert known - set(re.findall(r"\bVEDETTE_[A-Z_]+\b", REFERENCE)) == set()
    for page, text in PAGES.items():
        assert set(re.findall(r"\bVEDETTE_[A-Z_]+\b", text)) - known == set(), page


def commands():
    """Walk the parser: each command with its own."""
    [found] = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return found.choices


EVERYWHERE = ("-h", "--help", "--home", "--set")


@pytest.mark.parametrize("command", commands())
def test_commands(command):
    """Every command has a heading, and below it each argument and flag that it takes, and no others."""
    body = COMMANDS[f"vedette {command}"]
    taken = [action for action in commands()[command]._actions if action.help != argparse.SUPPRESS]
    flags = {flag for action in taken for flag in action.option_strings} - set(EVERYWHERE)

    assert flags == set(re.findall(r"`(--?[\w-]+)`", "\n".join(re.findall(r"^- (`.*?):", body, re.MULTILINE))))
    for action in taken:
        if not action.option_strings:
            assert action.dest in body
        for choice in action.choices or ():
            assert choice in body


def test_flags_of_every_command():
    """What every command takes is said once."""
    text = sections(REFERENCE, 2)["Commands"].partition("### ")[0]

    for flag in (*EVERYWHERE, "--version"):
        assert flag in text


def test_no_command_is_made_up():
    """Every heading of a command is one."""
    shown = {title.split()[1] for title in sections(REFERENCE, 3) if re.match(r"vedette \w+$", title)}

    assert shown == set(commands())


def test_the_language_of_where():
    """Every field and operator of --where is in the reference."""
    text = sections(REFERENCE, 2)["--where"]

    for field in where.FIELDS:
        assert f"`{field}`" in text
    for family in where.FAMILIES:
        assert family in text
    for operator in ("=", "==", "!=", "<", "<=", ">", ">=", "~", " in ", "and", "or", "not"):
        assert operator in text


@pytest.mark.parametrize("told", [ls.__doc__, where.__doc__], ids=["help", "grammar"])
def test_the_language_of_where_in_brief(told):
    """Every field of --where is in `vedette ls --help`, and in the grammar."""
    fields = (*where.FIELDS, "star", *where.FAMILIES)

    assert [field for field in fields if not re.search(rf"\b{re.escape(field)}(?![a-z])", told)] == []


def test_the_expressions_that_are_shown():
    """Every --where expression in the documents can be read."""
    shown = [found[1] for text in PAGES.values() for found in re.finditer(r"--where \"([^\"]+)\"", text)]
    shown += [found[1] for text in PAGES.values() for found in re.finditer(r"vedette\.runs\(\"([^\"]+)\"", text)]
    shown += re.findall(r"`((?:start|end|name|config\.\w+) [<>=]+ [^`]+)`", sections(REFERENCE, 2)["--where"])

    assert len(shown) >= 5
    for text in shown:
        where.parse(text)


def test_the_commands_that_are_shown():
    """Every command line in the documents is one that the parser takes."""
    lines = [line for text in PAGES.values() for block in fenced(text, "console") for line in block.splitlines()]
    shown = [line[2:].partition("#")[0] for line in lines if re.match(r"\$ vedette \w", line)]

    import shlex

    assert len(shown) >= 50
    for line in shown:
        build_parser().parse_args(shlex.split(line)[1:])


@pytest.mark.parametrize("name", sinks.SINKS)
def test_sinks(name):
    """Every sink has a heading, and below it each option that it takes."""
    body = sections(REFERENCE, 3)[name]
    taken = re.search(r"options\(text, \((.*?)\)\)", inspect.getsource(sinks.find(name)))[1]

    assert f"`{name}" in body
    for option in re.findall(r"\w+", taken):
        assert re.search(rf"\b{option}\b", body), option


@pytest.mark.parametrize("name", listeners.LISTENERS)
def test_listeners(name):
    """Every listener has a heading, and below it how it is started."""
    assert f"`--listen {name}=" in sections(REFERENCE, 3)[name]


@pytest.mark.parametrize("name", SENSORS)
def test_sensors(name):
    """Every sensor has a row among those of monitors, and each of its numbers is named in a document."""
    assert f"\n| `{name}` | " in PAGES["docs/monitor.md"]
    for number in importlib.import_module(SENSORS[name]).METRICS:
        assert any(f"`{number}`" in PAGES[page] for page in ("docs/reference.md", "docs/power.md")), number


def tables():
    """Return every table and view that a user can ask, each with its columns."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/store.db")
        add_points_view(store.connection)
        names = store.connection.execute(
            "SELECT name FROM (SELECT * FROM sqlite_schema UNION ALL SELECT * FROM sqlite_temp_schema)"
            " WHERE type IN ('table', 'view') AND name NOT LIKE 'events_text_%' AND name NOT LIKE 'sqlite_%'"
        )
        found = {name: [row[1] for row in store.connection.execute(f"PRAGMA table_info({name})")] for (name,) in names}
        store.close()
    return found


@pytest.mark.parametrize("table", tables())
def test_tables_and_views(table):
    """Every table and view has a heading, and below it a line for each column, in order, and no others."""
    body = sections(SCHEMA, 3)[table]

    assert re.findall(r"^- `(\w+)`: .+[.,;]", body, re.MULTILINE) == tables()[table]
    assert len(body.strip().splitlines()[0]) > 10


def test_no_table_is_made_up():
    """Every heading of the schema is a table or a view."""
    assert set(sections(SCHEMA, 3)) == set(tables())


EXAMPLES = [
    pytest.param(block, id=f"{page} {n}")
    for page, text in PAGES.items()
    for n, block in enumerate(fenced(text, "python"), 1)
    if block.startswith("import vedette")
]


@pytest.fixture
def fresh():
    """A fresh home, and an environment that points at it."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        home = Home(os.path.join(root, "home"))
        yield {**os.environ, "VEDETTE_HOME": home.asked, "VEDETTE_HUB_IDLE_S": "5"}
        end_hub(home)


def execute(arguments, environ, cwd=None):
    """Run to the end; what goes wrong is shown."""
    return subprocess.run(arguments, env=environ, cwd=cwd, text=True, capture_output=True, timeout=60, check=False)


SEED = """
import vedette
run = vedette.init(project="cifar", name="seed", config={"lr": 0.1})
for step in range(1000):
    run.log({"loss": 1 / (step + 1), "accuracy": step / 1000}, step=step)
run.mark("out of memory")
run.finish("failed")
run = vedette.init(project="cifar", name="sprout", config={"lr": 0.2})
run.log({"loss": 0.5, "accuracy": 0.5})
run.finish()
"""


@pytest.mark.parametrize("block", EXAMPLES)
def test_python_examples(block, fresh, tmp_path):
    """Every Python example works as it stands, without a word on stderr, in a home with runs in it."""
    script = tmp_path / "example.py"
    script.write_text(block)
    assert execute([sys.executable, "-c", SEED], fresh).returncode == 0
    done = execute([sys.executable, str(script)], fresh, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_there_are_examples():
    """The README and the reference show how it is used."""
    assert {example.id.split()[0] for example in EXAMPLES} >= {"README.md", "docs/reference.md"}
    assert len(fenced(SCHEMA, "sql")) >= 3


def test_sql_examples(fresh):
    """Every SQL example finds something in a home with runs in it."""
    assert execute([sys.executable, "-c", SEED], fresh).returncode == 0
    for query in fenced(SCHEMA, "sql"):
        done = execute([sys.executable, "-m", "vedette", "sql", query, "--format", "csv"], fresh)

        assert (done.returncode, done.stderr) == (0, ""), query
        assert len(done.stdout.splitlines()) > 1, query


def test_plain_sqlite_can_read_it(fresh):
    """The views but `points` need nothing of ours: any sqlite3 reads them."""
    assert execute([sys.executable, "-c", SEED + "vedette.runs()"], fresh).returncode == 0
    connection = sqlite3.connect(f"file:{fresh['VEDETTE_HOME']}/store.db?mode=ro", uri=True)

    for name in set(tables()) - {"points", "events_text"}:
        connection.execute(f"SELECT * FROM {name}").fetchall()
    assert connection.execute("SELECT name, state FROM runs ORDER BY name").fetchall() == [
        ("seed", "failed"),
        ("sprout", "done"),
    ]
    connection.close()


def files(ending):
    """Return the files of the repository whose name ends like this, and not those that are installed or hidden."""
    found = []
    for folder, inside, names in os.walk(ROOT):
        inside[:] = sorted(name for name in inside if not name.startswith(".") and name != "node_modules")
        found += [Path(folder, name).relative_to(ROOT) for name in sorted(names) if name.endswith(ending)]
    return found


def prose(text):
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """Return the names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page, text):
    """Return the links of a page that lead nowhere in the repository."""
    found = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text))):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("page", files(".md"), ids=str)
def test_links(page):
    """Every link inside the repository leads to a file that is there, and to a heading of it."""
    assert broken_links(page, (ROOT / page).read_text()) == []


def test_the_check_of_links_finds_broken_ones():
    """The positive control: a file, a heading there and a heading here that do not exist are found."""
    wrong = ["docs/none.md", "docs/ui.md#none", "#none"]
    right = ["docs/ui.md", "docs/reference.md#many-machines", "https://example.org/none"]

    assert broken_links("README.md", " ".join(f"[x]({link})" for link in wrong + right)) == wrong


NOT_OURS = {"blobs/", "views/web/page/"}  # of a home; made by the build


def missing_paths(text):
    """Return the paths in backticks that no file or folder of the repository has, or ends in."""
    present = {f"/{path}" for file in files("") for path in (file, *file.parents)}
    found = []
    for word in re.findall(r"`([\w.{},/-]+)`", prose(text)):
        if not re.search(r"/|\.(py|md|ts|svelte|toml)$", word) or word.startswith("RUN/") or word in NOT_OURS:
            continue
        before, some, after = re.fullmatch(r"([^{]*)(?:{(.*)})?(.*)", word).groups()
        paths = [f"{before}{one}{after}".rstrip("/") for one in (some or "").split(",")]
        found += [path for path in paths if not any(one.endswith(f"/{path}") for one in present)]
    return found


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_are_named(page):
    """The files and folders that a newcomer is sent to are there."""
    assert missing_paths((ROOT / page).read_text()) == []


def test_the_check_of_paths_finds_what_is_gone():
    """The positive control: a file, a folder and one of several files that do not exist are found."""
    text = "`hub/turn/none.py`, `none/`, `sinks/{csv,none}.py`; `hub/turn/keeper.py`, `tests/law`, `wire.py`"

    assert missing_paths(text) == ["hub/turn/none.py", "none", "sinks/none.py"]


@pytest.mark.parametrize("page", ["docs/reference.md", "docs/schema.md"])
def test_a_sentence_a_line(page):
    """Prose has a line for each sentence, so that a change shows what changed."""
    lines = [line for line in prose(PAGES[page]).splitlines() if not line.startswith(("|", "-"))]
    long = [line for line in lines if re.search(r"[a-z]\. [A-Z]", line)]

    assert long == []


def rooms():
    """Return what lies in each package of vedette, by the path of the package."""
    found = {}
    for init in sorted((ROOT / "src").rglob("__init__.py")):
        inside = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        inside |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
        found[str(init.parent.relative_to(ROOT / "src"))] = inside
    return found


def docstring(room):
    return ast.get_docstring(ast.parse((ROOT / "src" / room / "__init__.py").read_text())) or ""


def listed():
    """Return the paths of what a table in another file lists: routes of the API, sinks and listeners in compat/."""
    rows = [route.act.__module__ for route in ROUTES]
    rows += [row for row in (*sinks.SINKS.values(), *listeners.LISTENERS.values()) if row.startswith("vedette.compat.")]
    return {path for row in rows for path in (Path(*row.split(".")), *Path(*row.split(".")).parents)}


@pytest.mark.parametrize("room", rooms())
def test_each_room_names_its_modules(room):
    """The docstring of a package names, in backticks, each module and package in it that no table lists."""
    named = re.findall(r"`(\w+)(?:\.py|/)?`", docstring(room))

    assert [name for name in sorted(rooms()[room] - {*named}) if Path(room, name) not in listed()] == []


def gone(room, text):
    """Return the names in a room's docstring that look like its modules, and are none.

    In a list a name begins a line. In prose each word in backticks counts, unless it is something else of the package.
    """
    listing = re.findall(r"^- `(\w+)`", text, re.MULTILINE)
    if listing:
        return sorted({*listing} - rooms()[room])
    names = {*re.findall(r"`([a-z]\w*)(?:\.py)?`", text)}
    return sorted(names - rooms()[room] - {path.rpartition("/")[2] for path in rooms()} - NOT_MODULES.get(room, set()))


NOT_MODULES = {"vedette/cli": {"add"}}  # by room: other words in backticks


@pytest.mark.parametrize("room", rooms())
def test_no_room_names_a_module_that_is_gone(room):
    """What a room says lies in it exists, whether it says so in a list or in prose."""
    assert gone(room, docstring(room)) == []


@pytest.mark.parametrize("text", ["`watch` looks; `tree` ends all.", "Ends.\n\n- `watch`: looks\n- `tree`: ends all"])
def test_the_check_of_rooms_finds_what_is_gone(text):
    """The positive control: a module that does not exist is found in prose and in a list."""
    assert gone("vedette/deaths", text) == ["watch"]


def test_the_rooms_are_in_one_order():
    """The package and ARCHITECTURE.md name the rooms in the same order: the one in which imports go."""
    table = sections((ROOT / "ARCHITECTURE.md").read_text(), 2)["The rooms"]
    cells = "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))
    in_table = re.findall(r"`(\w+)(?:/|\.py)`", cells)
    in_package = re.findall(r"^- `(\w+)`", docstring("vedette").partition("Modules of the core")[0], re.MULTILINE)

    assert in_package == [name for name in in_table if name != "web"]
