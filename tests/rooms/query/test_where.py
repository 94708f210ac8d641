"""The language of --where: how it is read, and what a store makes of it."""

import contextlib
import re
import sqlite3
import time
from datetime import datetime

import pytest

from tests.growth import grows_with_length
from tests.rooms.conftest import Maker
from vedette.errors import VedetteError, WhereError
from vedette.query.columns import column
from vedette.query.listing import Listing
from vedette.query.overview import condition
from vedette.query.runs import select
from vedette.query.where import FAMILIES, FIELDS, _Parser, parse
from vedette.store import Both, Compare, Either, Not
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_where import to_sql

A, B, C = Compare("name", "=", "a"), Compare("name", "=", "b"), Compare("name", "=", "c")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("name = a", A),
        ("name == a", A),
        ("name=a", A),
        ("  name\t=\n a ", A),
        ("name = a and name = b", Both((A, B))),
        ("name = a or name = b", Either((A, B))),
        ("name = a or name = b and name = c", Either((A, Both((B, C))))),
        ("name = a and name = b or name = c", Either((Both((A, B)), C))),
        ("(name = a or name = b) and name = c", Both((Either((A, B)), C))),
        ("name = a AND name = b Or name = c", Either((Both((A, B)), C))),
        ("not name = a and name = b", Both((Not(A), B))),
        ("not (name = a and name = b)", Not(Both((A, B)))),
        ("not not name = a", Not(Not(A))),
        ("((((name = a))))", A),
        ("tag.best", Compare("tag.best", "=", True)),
        ("not tag.best", Not(Compare("tag.best", "=", True))),
        ("config.a.b.c >= 1", Compare("config.a.b.c", ">=", 1)),
        ("metric.val/loss < 1e-3", Compare("metric.val/loss", "<", 0.001)),
        ("summary.best <= -2.5", Compare("summary.best", "<=", -2.5)),
        ("name ~ ott", Compare("name", "~", "ott")),
        ("name != a", Compare("name", "!=", "a")),
        ("state in (done)", Compare("state", "in", ("done",))),
        ("state in (done, failed)", Compare("state", "in", ("done", "failed"))),
        ("config.x in (1,2.5,'three',true,null)", Compare("config.x", "in", (1, 2.5, "three", True, None))),
        ("not state in (done)", Not(Compare("state", "in", ("done",)))),
    ],
)
def test_the_grammar(text, meaning):
    """`and` binds closer than `or`, `not` closest, parentheses before all, and blanks mean nothing."""
    assert meaning == parse(text)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("1.0", 1.0),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("word", "word"),
        ("resnet-18/v2", "resnet-18/v2"),
        ('"1"', "1"),
        ("'true'", "true"),
        ('"a and b"', "a and b"),
        ("'it is \"so\"'", 'it is "so"'),
        (r'"a \"quote\" and a \\ backslash"', 'a "quote" and a \\ backslash'),
        ("''", ""),
        ("'(not, a, list)'", "(not, a, list)"),
        ("größe", "größe"),
        ('"日本 語"', "日本 語"),
    ],
)
def test_values(word, value):
    """A word is a number, true, false or null where it can be; in quotes it is always text, and may hold anything."""
    found = parse(f"config.x = {word}").value

    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize("field", [field for field in FIELDS if field not in ("start", "end", "duration")])
def test_fields_that_are_text_take_a_bare_word_as_text(field):
    """A name of digits, or one that looks like null or true, needs no quotes to be found."""
    assert [parse(f"{field} = {word}").value for word in ("2024", "null", "true", "1e5")] == [
        "2024",
        "null",
        "true",
        "1e5",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("30s", 30), ("10m", 600), ("1.5h", 5400), ("2d", 172800)]
)
def test_durations(text, seconds):
    """A duration is a number of seconds, or has a unit."""
    assert Compare("duration", ">", seconds) == parse(f"duration > {text}")


@pytest.mark.parametrize(
    "text",
    ["2026-11-01", "2026-11-01T14:30", "'2026-11-01 14:30'", "2026-11-01T14:30:15.5", "2026-11-01T14:30:00+02:00"],
)
@pytest.mark.parametrize("field", ["start", "end"])
def test_dates(field, text):
    """A time is an ISO date, with or without a time and a zone; without one it is local."""
    expected = datetime.fromisoformat(text.strip("'")).astimezone().timestamp()

    assert Compare(field, ">=", expected) == parse(f"{field} >= {text}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "the end"),
        ("   ", "the end"),
        ("name =", "the end"),
        ("name = a and", "the end"),
        ("name = a name = b", "name = b"),
        ("name = a) or name = b", ") or name = b"),
        ("(name = a", "the end"),
        ("= 3", "= 3"),
        ("name in done", "done"),
        ("name in ()", ")"),
        ("name in (a", "the end"),
        ("name in (a b)", "b)"),
        ("name in (a,)", ")"),
        ("name = = a", "= a"),
        ('name = "open', '"open'),
        ("name ! a", "! a"),
        ('"name" = a', '"name" = a'),
        ("not", "the end"),
        ("or name = a", "or"),
        ("statee = done", "state"),
        ("lr > 1", "config.lr"),
        ("config = 1", "config"),
        ("start > yesterday", "yesterday"),
        ("start > 2026-13-01", "2026-13-01"),
        ("duration > soon", "soon"),
        ("duration > 5w", "5w"),
    ],
)
def test_what_is_wrong_is_named(text, place):
    """An expression that cannot be read is refused in one sentence that shows where, and what was given."""
    with pytest.raises(WhereError) as caught:
        parse(text)

    assert place in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["(" * 2000, "not " * 499, "(" * 900 + "name = a" + ")" * 900])
def test_deep_nesting_is_refused(text):
    """Nesting without end is refused by a sentence, not by the interpreter's stack."""
    with pytest.raises(WhereError, match="nested too deeply"):
        parse(text)


def test_nesting_that_people_write_is_read():
    """Forty parentheses are fine."""
    assert parse("(" * 40 + "name = a" + ")" * 40) == A


@pytest.mark.parametrize("piece", ['"\\', "'", " ", "a", "!", "=", "[", "[=", "[a=b]", "]", "a="])
@pytest.mark.parametrize("head", ["", "name = ", "name in (", "[", "metric.x[a="])
def test_hostile_text_costs_no_time(head, piece):
    """Whatever the text is, reading it takes as long as the text is, and fails by nothing but a WhereError."""

    def work(text):
        with contextlib.suppress(WhereError):
            _Parser(head + text, "").parse()

    assert grows_with_length(work, piece, shorter=1000)


def test_a_long_text_is_refused(store):
    """A filter that no script writes is refused by a sentence, whatever it is and whoever reads it."""
    assert parse(f"name = {'a' * 99_993}")
    for text in (f"name = {'a' * 99_994}", " " * 100_001, "a " * 50_001):
        for read in (parse, condition, lambda text: select(store, text), lambda text: Listing().page(store, text)):
            if text.strip() or read in (parse, condition):
                with pytest.raises(WhereError, match="characters, and takes 100000 at most: ask in several parts"):
                    read(text)


def test_what_a_script_asks_for(camp, found):
    """Thousands of ids are asked for at once, and so are many conditions; mistakes are said in short sentences."""
    ids = ", ".join([f"{number:08x}abcd" for number in range(7000)])
    assert found(f"id in ({ids}, r1)") == {"r1"}
    assert found(" or ".join(["config.lr = 10"] * 1000)) == {"r3"}
    for text in (
        f"id in ({ids}",
        f"x{ids}",
        "x" * 90_000 + " = 1",
        f"start > {'9' * 90_000}",
        f"duration > {'x' * 90_000}",
    ):
        with pytest.raises(WhereError) as caught:
            parse(text)
        assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" or ".join(["config.lr = 1"] * 1001), "more than 1000 conditions: write FIELD in"),
        ("a " * 334, "more than 1000 conditions: write FIELD in"),
    ],
    ids=["conditions", "words"],
)
def test_more_than_a_store_can_look_for(store, text, why):
    """It is said what to do."""
    with pytest.raises(WhereError, match=re.escape(why)):
        Listing().page(store, text)


def test_more_nesting_than_sqlite_takes(store):
    """It is the filter, and not the store, that is said to be wrong. Newer ones of SQLite take more of it."""
    with contextlib.suppress(WhereError):
        Listing().page(store, "star = true or (" * 49 + "star = true" + ")" * 49)


def test_more_values_than_sqlite_takes(camp):
    """How many it takes depends on how it was built: here it is told to take few."""
    camp.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 100)
    try:
        with pytest.raises(WhereError, match="too much for SQLite"):
            select(camp, f"name in ({', '.join('a' * 101)})")
    finally:
        camp.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)


def test_a_field_is_not_read_for_each_value():
    """However many values `in` has, the SQL reads the field a few times: it cost the square of them."""
    few, many = (to_sql(Compare("metric.loss", "in", tuple(range(count))))[0].count("SELECT") for count in (2, 1000))
    assert few == many


@pytest.fixture(scope="module")
def camp(tmp_path_factory):
    """A store with four runs, which no test changes."""
    store = SqliteStore(str(tmp_path_factory.mktemp("camp") / "store.db"))
    make = Maker(store)
    make.run("r1", "alpha", config={"lr": 0.1, "opt": {"name": "adam"}, "flag": True, "x": None}, tag={"best": True})
    make.run("r2", "Beta", "failed", cause="exit code 3", config={"lr": "0.1", "flag": False}, tag={"best": False})
    make.run("r3", "100", "running", config={"lr": 10}, project="2024", summary={"acc": 0.9})
    make.run("r4", "it's", config={"größe": 5, "back\\slash": 1, "list": [1, 2], "big": 2**62 + 1, "inf": float("inf")})
    make.points("r1", "loss", [3.0, 2.0])
    make.points("r2", "loss", [float("nan")])
    make.points("r3", "loss", [7.0], {"rank": "1"})
    make.points("r3", "loss", [1.0])
    yield store
    store.close()


@pytest.fixture
def found(camp):
    """Return a function that gives the ids of the runs for which an expression holds."""
    return lambda where: {view.id for view in select(camp, where)}


ALL = {"r1", "r2", "r3", "r4"}


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("state = done", {"r1", "r4"}),
        ("state != done", {"r2", "r3"}),
        ("state in (done, failed)", {"r1", "r2", "r4"}),
        ("not state in (done, failed)", {"r3"}),
        ("name = alpha", {"r1"}),
        ("name = ALPHA", set()),
        ("name ~ ALP", {"r1"}),
        ("name ~ beta", {"r2"}),
        ('name = "it\'s"', {"r4"}),
        ("name = '100'", {"r3"}),
        ("cause ~ 'code 3'", {"r2"}),
        ("id in (r1, r2)", {"r1", "r2"}),
        ("project = '2024'", {"r3"}),
        ("summary.acc >= 0.9", {"r3"}),
        ("config.opt.name = adam", {"r1"}),
        ("config.opt.name ~ dam", {"r1"}),
        ("config.big = 4611686018427387905", {"r4"}),
        ("config.big = 4611686018427387904", set()),
        ("config.list = '[1,2]'", {"r4"}),
        ("config.back\\slash = 1", {"r4"}),
        ("duration = 10", {"r1", "r2", "r4"}),
        ("duration > 9s and duration < 11s", {"r1", "r2", "r4"}),
        ("start < 2000-01-01", set()),
        ("start > 2000-01-01", ALL),
        ("end > 2000-01-01", {"r1", "r2", "r4"}),
    ],
)
def test_what_holds(found, where, runs):
    """Each field and operator finds just the runs for which it holds."""
    assert runs == found(where)


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("config.lr > 0", {"r1", "r3"}),
        ("config.lr < 1000", {"r1", "r3"}),
        ("config.lr = 0.1", {"r1"}),
        ("config.lr = '0.1'", {"r2"}),
        ("config.lr != 0.1", {"r3"}),
        ("config.lr > ''", {"r2"}),
        ("config.lr in (0.1, '0.1')", {"r1", "r2"}),
        ("config.lr in ('0.1', null, '10')", {"r2"}),
        ("config.x in (1, null, 'a')", {"r1"}),
        ("config.flag in (true, 'true')", {"r1"}),
        (f"config.big in (1, {2**62 + 1}, {'9' * 400})", {"r4"}),
        ("name in (ALPHA, beta, 100)", {"r3"}),
        ("not config.lr in (0.1, null)", {"r2", "r3", "r4"}),
        ("metric.loss > -1000", {"r1", "r3"}),
        ("metric.loss < 1000", {"r1", "r3"}),
    ],
)
def test_numbers_and_text_are_never_compared(found, where, runs):
    """A number is compared with numbers and a text with texts; the other kind never holds, whichever way."""
    assert runs == found(where)


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">=", "~"])
@pytest.mark.parametrize("value", ["0", "''", "x", "true", "false"])
@pytest.mark.parametrize("field", ["config.nope", "summary.nope", "tag.nope", "metric.nope", "experiment"])
def test_what_is_missing_never_holds(found, field, operator, value):
    """A condition on something that a run does not have never holds; its `not` always does."""
    assert set() == found(f"{field} {operator} {value}")
    assert found(f"not {field} {operator} {value}") == ALL


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("config.x = null", {"r1"}),
        ("config.nope = null", set()),
        ("config.nope in (null)", set()),
        ("config.x != null", set()),
        ("config.flag != null", {"r1", "r2"}),
    ],
)
def test_null_is_a_value(found, where, runs):
    """`= null` finds what was set to None, not what was never set."""
    assert runs == found(where)


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("config.flag", {"r1"}),
        ("config.flag = true", {"r1"}),
        ("config.flag = false", {"r2"}),
        ("not config.flag", {"r2", "r3", "r4"}),
        ("tag.best", {"r1"}),
        ("tag.best = false", {"r2"}),
    ],
)
def test_flags_and_tags(found, where, runs):
    """A field alone holds when it is true."""
    assert runs == found(where)


def test_a_key_may_have_any_letters(found):
    """Config keys beyond ASCII are found by their name."""
    assert {"r4"} == found("config.größe = 5")


def test_a_metric_is_the_series_without_tags(found):
    """`metric.NAME` is the last value of the series that has no tags, if there is one."""
    assert {"r3"} == found("metric.loss = 1")
    assert set() == found("metric.loss = 7")


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("metric.loss[rank=1] = 7", {"r3"}),
        ("metric.loss[rank=2] = 7", set()),
        ("metric.loss.last = 1", {"r3"}),
        ("metric.acc >= 0.9", {"r3"}),
        ("metric.loss.max = 3", {"r1"}),
        ("metric.loss.min < 2 or metric.loss.mean = 2.5", {"r1", "r3"}),
        ("metric.loss[rank=1].min = 7", {"r3"}),
        ("not metric.loss.min > -1000", {"r2", "r4"}),
        ("metric.loss.mean in (1, 2.5)", {"r1", "r3"}),
        ("metric.loss.mean = 'x'", set()),
    ],
)
def test_tags_summaries_and_statistics(found, where, runs):
    """`metric` also reaches a series by its tags, what a run put into its summary, and min, max and mean of points."""
    assert runs == found(where)


def test_a_key_of_a_summary_that_is_called_like_a_statistic(store, make):
    """`metric.val.min` reaches a key `val.min` of a summary, as a column does; points of a series count first."""
    make.run("r1", summary={"val.min": 0.5})
    make.run("r2", summary={"val.min": 2})
    make.run("r3", summary={"val.min": 0.1})
    make.points("r3", "val", [7.0, 8.0])
    make.run("r4")
    for where, runs in {
        "metric.val.min < 1": {"r1"}, "not metric.val.min < 1": {"r2", "r3", "r4"},
        "metric.val.min in (2, 7)": {"r2", "r3"}, "metric.val.min != 0.5": {"r2", "r3"},
    }.items():  # fmt: skip
        assert {view.id for view in select(store, where)} == runs, where
    views = select(store, "")
    shown = dict(zip((view.id for view in views), column(store, views, "metric.val.min").values, strict=True))
    assert shown == {"r1": 0.5, "r2": 2, "r3": 7.0, "r4": None}


def test_the_page_asks_in_the_same_way(camp):
    """A list of the page fits the same runs, by statistics and by what is lost."""
    listing = Listing()

    assert listing.page(camp, "metric.loss.max = 3").ids == ["r1"]
    assert listing.page(camp, "metric.loss[rank=1].mean > 6").ids == ["r3"]
    assert listing.page(camp, "state = lost").ids == ["r3"]
    assert listing.page(camp, "state = running").ids == []


def test_a_name_of_digits_is_found(found):
    """A run that is called 100, in a project called 2024, is found without quotes."""
    assert {"r3"} == found("name = 100")
    assert {"r3"} == found("project = 2024")


def test_a_run_that_has_not_ended_can_be_asked_for(found):
    """`end = null` finds what is still going on."""
    assert {"r3"} == found("end = null")


def test_a_run_that_has_just_begun_has_a_duration(store, make):
    """A run that is a moment old has taken no time or some, never less than none; in SQL too."""
    make.run("r1", state="running", start_t=time.time_ns())

    assert [view.id for view in select(store, "duration >= 0 and duration < 1h")] == ["r1"]
    assert store.connection.execute("SELECT duration_s FROM runs").fetchone()[0] >= 0


HOSTILE = [
    "x' OR '1'='1",
    'x" OR "1"="1',
    "x'; DROP TABLE spans; --",
    "'); DELETE FROM spans; --",
    "\\",
    "\\'",
    "%",
    "_",
    "x\x00y",
    "$.name",
    '"]',
    "\u202e\x1b[31m",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["name", "state", "project", "config.x", "summary.x", "metric.x"])
@pytest.mark.parametrize("operator", ["=", "~", "<"])
def test_a_value_is_never_sql(found, camp, field, operator, text):
    """Whatever a value holds, it is compared and never executed."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    hits = found(f"{field} {operator} {quoted}")

    assert operator == "<" or set() == hits
    assert found("") == ALL
    assert camp.connection.execute("SELECT count(*) FROM runs").fetchone()[0] == 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "key", [";DROP", "$", "x.$.y", "[0]", "a--", "a/*", "\\", "\\u0041", "%s", "?", ":x", "*", "["]
)
def test_a_field_is_never_sql(found, family, key):
    """Whatever a key holds, it names a key and nothing else."""
    assert set() == found(f"{family}{key} = 1")
    assert found("") == ALL


@pytest.mark.parametrize("word", ["99999999999999999999", "-99999999999999999999", "1e999", "nan", "-inf", "9" * 5000])
def test_numbers_beyond_64_bits(found, word):
    """A number that no store can hold is compared as far as it goes, or refused by a sentence; it is no crash."""
    try:
        assert "r2" not in found(f"config.lr = {word}")
    except VedetteError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "where",
    [
        " or ".join(["state = done"] * 3000),
        " and ".join(["state = done"] * 3000),
        f"id in ({', '.join(f'r{n}' for n in range(3000))})",
    ],
    ids=["or", "and", "in"],
)
def test_long_expressions(found, where):
    """A long list of conditions, as scripts write them, is answered, or refused by a sentence."""
    try:
        assert "r1" in found(where)
    except VedetteError as error:
        assert len(str(error)) < 1000  # noqa: PT017


def test_text_that_is_not_unicode(found):
    """Bytes from a shell that are no UTF-8 find nothing, or are refused by a sentence."""
    try:
        assert set() == found("name = '\udcff'")
    except VedetteError:
        pass


def test_a_project_is_asked_for_beside_an_expression(store, make):
    """`project` holds together with the whole expression, however that one is written."""
    make.run("r1", project="x")
    make.run("r2", "b", "failed", project="y")

    assert [view.id for view in select(store, "state = done or state = failed", "x")] == ["r1"]
    assert [view.id for view in select(store, "", "y")] == ["r2"]
    assert select(store, "", 'x" or name ~ "') == []
    with pytest.raises(WhereError):
        select(store, "state = done) or (state = failed", "x")


@pytest.mark.parametrize("project", ["", "x"])
def test_an_error_shows_what_the_user_wrote(store, make, project):
    """The sentence repeats the expression as it was given, with nothing of ours around it."""
    make.run("r1")
    with pytest.raises(WhereError) as caught:
        select(store, "config.lr >", project)

    assert "at the end of --where 'config.lr >'" in str(caught.value)


def test_dates_are_those_of_the_zone_that_is_named():
    """A date that names no zone is one of the reader's zone; one that the machine does not know is said to be."""
    times = {}
    for zone in ("Europe/Berlin", "America/New_York", "UTC"):
        times[zone] = parse("start > '2026-07-01 12:00'", zone).value
        assert parse("start > 2026-07-01T12:00+00:00", zone).value == 1_782_907_200
    assert times == {"Europe/Berlin": 1_782_900_000, "America/New_York": 1_782_921_600, "UTC": 1_782_907_200}
    for wrong in ("Nowhere/Else", "../etc/passwd", "/etc/localtime", "x\0y"):
        with pytest.raises(WhereError, match="does not know the time zone"):
            parse("start > 2026-07-01", wrong)
    assert parse("state = done", "Nowhere/Else"), "no date, no zone"
