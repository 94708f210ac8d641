"""Secrets: told by the name they go by or by their form, and nothing else is. A new case is a line in cases/masks."""

import ast
import json
import shlex
from pathlib import Path

import pytest

from tests.growth import grows_with_length
from vedette import masks
from vedette.capture.cleaning import clean, clean_diff, is_secret_file
from vedette.secret_names import is_secret

CASES = Path(__file__).parents[1] / "cases" / "masks"


def lines(name):
    """Return the cases of a file."""
    return [line for line in (CASES / name).read_text().splitlines() if line and not line.startswith("#")]


def pairs(name):
    """Return what goes in and what is to come out."""
    return [tuple(line.split(" => ")) for line in lines(name)]


def test_keys():
    """A key says whether what goes by it is a secret."""
    keys = [line.split() for line in lines("keys.txt")]

    assert min(sum(kind == one for kind, _ in keys) for one in ("secret", "plain")) > 200
    assert [key for kind, key in keys if is_secret(key) != (kind == "secret")] == []


@pytest.mark.parametrize(("given", "kept"), pairs("texts.txt"))
def test_texts(given, kept):
    """What is secret inside a text is masked, and masking twice changes nothing."""
    assert masks.text(given) == kept
    assert masks.text(kept) == kept


@pytest.mark.parametrize(("given", "kept"), pairs("argv.txt"))
def test_command_lines(given, kept):
    """A command line keeps its words but for the secrets."""
    assert masks.argv(shlex.split(given)) == shlex.split(kept)


@pytest.mark.parametrize(("given", "kept"), pairs("code.txt"))
def test_code(given, kept):
    """Literals that surely are secrets are masked in code, and code that only speaks of them stays."""
    cleaned, count = clean(f"import os\n{given}\nx = 1\n", "train.py")

    assert cleaned == f"import os\n{kept}\nx = 1\n"
    assert count == kept.count(masks.MASK)


def test_code_that_is_kept_can_be_run():
    """Code without a secret stays as it is, and what is left of other code is still code: also that of this project."""
    given = "".join(f"{line}\n" for line in lines("expressions.txt"))
    ours = [path.read_text() for path in Path(masks.__file__).parent.rglob("*.py")]
    cleaned = [kept for source in ours for kept, count in [clean(source, "a.py")] if count]

    assert len(ours) > 300
    assert cleaned
    assert ast.parse(given)
    assert clean(given, "a.py") == (given, 0)
    assert all(map(ast.parse, cleaned))
    assert clean(json.dumps({"source": given}), "a.ipynb") == (json.dumps({"source": given}), 0)


SHELL = pairs("shell.txt")


@pytest.mark.parametrize(("given", "kept"), SHELL)
@pytest.mark.parametrize(("path", "first"), [("a/train.sh", "set -e"), ("train", "#!/usr/bin/env bash")])
def test_scripts_of_a_shell(path, first, given, kept):
    """In the commands of a shell the literals that surely are secrets are masked, and what it expands stays."""
    cleaned, count = clean(f"{first}\n{given}\nx=1\n", path)

    assert cleaned == f"{first}\n{kept}\nx=1\n"
    assert count == kept.count(masks.MASK)
    assert clean(cleaned, path) == (cleaned, 0)


def test_a_command_of_several_lines():
    """What a backslash adds to a command is of it, and code in other languages is not read as that of a shell."""
    given = "curl https://example.org \\\n  -u ada:curlpw44 \\\n  -o x\ndocker run \\\n  -u ada:curlpw44\n"

    assert clean(given, "a.sh") == (given.replace("curlpw44", "***", 1), 1)
    assert clean(given, "a.py") == (given, 0)


def test_options_over_several_lines():
    """What an option is if it is not given is masked lines below its name, and that of the next option is not."""
    given = (
        'add_argument(\n    "--token",\n    help="x (y)",\n    default="abc123def456",\n)\nf(default="abc123def456")\n'
    )
    plain = '@option("--token", required=True)\n@option(\n    "--model",\n    default="bert4you",\n)\n'

    assert clean(given, "a.py") == (given.replace("abc123def456", "***", 1), 1)
    assert clean(plain, "a.py") == (plain, 0)


def test_values():
    """A whole config is masked: by key at any depth, in lists and pairs, and nothing that tells nothing."""
    config = {
        "lr": 0.1,
        "api_key": "abc",
        "auth": {"user": "ada", "password": 1234, "on": True},
        "data": {"url": "https://a:b@c/d", "opener": [{"token": "x"}, ["api_key", "y"], "--token", "z"]},
        "use_auth_token": True,
        "token": None,
        "password": "",
        "max_tokens": 512,
        "tokens": [1, 2],
    }

    assert masks.values(config) == {
        "lr": 0.1,
        "api_key": "***",
        "auth": {"user": "***", "password": "***", "on": True},
        "data": {"url": "https://a:***@c/d", "opener": [{"token": "***"}, ["api_key", "***"], "--token", "***"]},
        "use_auth_token": True,
        "token": None,
        "password": "",
        "max_tokens": 512,
        "tokens": [1, 2],
    }


def test_sessions_cookies_and_signatures():
    """Passwords, cookies and ids of sessions are masked with all below them; a signature only if it looks like one."""
    web = {"passwords": ["a", "b"], "cookies": {"theme": "dark"}, "session_id": "abc", "signature": "0a1b2c3d4e"}
    plain = {"session_id": 7, "signature": {"inputs": ["x"]}, "model": {"signature": "(x) -> y"}, "use_cookies": True}

    assert masks.values(web) == {
        "passwords": ["***", "***"],
        "cookies": {"theme": "***"},
        "session_id": "***",
        "signature": "***",
    }
    assert masks.values(plain) == plain


def test_a_key_is_judged_by_whose_it_is():
    """A bare `key` of a service is a secret, at any depth; that of anything else is not."""
    config = {"wandb": {"key": "abc", "project": "p"}, "trackers": [{"comet": {"key": "x"}}], "azure": [{"key": "y"}]}
    plain = {"sort": {"key": "name"}, "key": "text", "keys": ["a"], "hf_dataset": {"key": "text"}}

    assert masks.values({**config, **plain}) == {
        "wandb": {"key": "***", "project": "p"},
        "trackers": [{"comet": {"key": "***"}}],
        "azure": [{"key": "***"}],
        **plain,
    }


def test_a_name_of_two_meanings_is_judged_by_its_value():
    """A path, a parameter of a model or a word is no secret below a name that has other meanings, too."""
    plain = {
        "hf_key": "model.layers.0.weight",
        "storage_key": "s3://b/a1.bin",
        "train": {"otp": "sparse"},
        "lang_token": {"en": "<en1>", "at": 3},
        "src_token": ["en_XX", "de_DE"],
        "pairs": [["tgt_token", "de_DE"]],
    }
    secret = {"hf_key": "abcDEF0123abcDEF0123", "storage_key": "abc123", "otp": "482913", "hf_token": "sparse"}
    secret |= {"speech_token": "a8f7e6d5c4b3a2918273", "api_key": "a.0.b", "password": "my.1.pass"}

    assert masks.values(plain) == plain
    assert masks.values(secret) == dict.fromkeys(secret, "***")
    assert masks.values({"src_token": ["a8f7e6d5c4b3a2918273", "x"]}) == {"src_token": ["***", "x"]}


def test_in_the_environment_a_name_alone_tells():
    """No value excuses a variable of the environment that has the name of a secret."""
    environ = {"SRC_TOKEN": "en_XX123", "SPEECH_TOKEN": "a8f7e6d5c4b3a2918273", "OTP": "sparse", "PASSWORD": "a.weight"}

    assert masks.environment({**environ, "PAD_TOKEN": "x1"}) == {**dict.fromkeys(environ, "***"), "PAD_TOKEN": "x1"}
    assert set(masks.known(environ)) == {"en_XX123", "a8f7e6d5c4b3a2918273", "a.weight"}


def test_a_list_of_words_stays():
    """In a list only what follows an option is masked, and what stands in a list of pairs."""
    assert masks.values({"level": ["token", "sentence"]}) == {"level": ["token", "sentence"]}
    assert masks.values({"fields": ["password", "user"]}) == {"fields": ["password", "user"]}
    assert masks.values({"args": ["--token", "abc"]}) == {"args": ["--token", "***"]}
    assert masks.values({"headers": [["api_key", "abc"], ["The secret", "x"]]}) == {
        "headers": [["api_key", "***"], ["The secret", "x"]]
    }


BARE = {
    "docker-compose.yml": (
        "    environment:\n      - API_KEY=abc123\n      - 'DB_PASSWORD=abc123'\n      - TOKENIZER=bert12\n",
        "    environment:\n      - API_KEY=***\n      - 'DB_PASSWORD=***'\n      - TOKENIZER=bert12\n",
    ),
    "Makefile": (
        "API_KEY := abc123  # mine\nexport HF_TOKEN ?= abc123\nMAX_TOKENS = abc123\n",
        "API_KEY := ***  # mine\nexport HF_TOKEN ?= ***\nMAX_TOKENS = abc123\n",
    ),
    "my.cnf": ("[client]\npassword=hunter22\nport=3306\n", "[client]\npassword=***\nport=3306\n"),
    "Dockerfile": ("ENV API_KEY abc123\nENV LEVEL abc123\n", "ENV API_KEY ***\nENV LEVEL abc123\n"),
    "requirements.txt": ("PyJWT==2.8.0rc1\npython-jwt==1.0b2\n",) * 2,
    "conf.yaml": (
        "sort:\n  key: 0123456789abcdef0123\nwandb:\n  entity: me\n  key: 0123456789abcdef0123\n",
        "sort:\n  key: 0123456789abcdef0123\nwandb:\n  entity: me\n  key: ***\n",
    ),
    "conf.ini": (
        "[cache]\nkey = 0123456789abcdef0123\n[kaggle]\nuser = me\nkey = 0123456789abcdef0123\n",
        "[cache]\nkey = 0123456789abcdef0123\n[kaggle]\nuser = me\nkey = ***\n",
    ),
    "conf.json": (
        '{\n  "wandb": {\n    "id": 1,\n    "key": "0123456789abcdef0123"\n  },\n  "key": "0123456789abcdef0123"\n}\n',
        '{\n  "wandb": {\n    "id": 1,\n    "key": "***"\n  },\n  "key": "0123456789abcdef0123"\n}\n',
    ),
}


@pytest.mark.parametrize("path", BARE)
def test_files_of_settings(path):
    """What has no quotes is masked in files that are written so, and a `key` by what it stands below."""
    given, kept = BARE[path]

    assert clean(given, path) == (kept, kept.count(masks.MASK))


def test_what_stands_in_the_environment_is_known():
    """A secret of the environment is hidden wherever it comes up in code, whatever it is called there."""
    secrets = masks.known({"HF_TOKEN": "qwertz-123456", "LANG": "en_GB.UTF-8", "API_KEY": "short"})

    assert secrets == ["qwertz-123456"]
    assert clean('x = "qwertz-123456"', "a.py", secrets) == ('x = "***"', 1)


@pytest.mark.parametrize(
    "name",
    [
        ".env", "a/.env.local", "id_rsa", "x.pem", "credentials.json", "secrets.yaml", ".netrc", "k/server.key",
        ".envrc", ".s3cfg", ".my.cnf", "kaggle.json", ".bash_history", ".python_history", "a/.psql_history",
    ],
)  # fmt: skip
def test_files_that_hold_secrets(name):
    """A file that is there to hold secrets is known by its name."""
    assert is_secret_file(name)


@pytest.mark.parametrize(
    "name",
    ["train.py", ".env.example", "tokenizer.json", "tokens.py", "secrets.py", "env.py", "keys", "Makefile",
     "my.cnf", "history.py", "loss_history", ".envrc.example", "kaggle.py"],
)  # fmt: skip
def test_files_that_hold_none(name):
    """And any other is not."""
    assert not is_secret_file(name)


def test_a_diff():
    """Of a diff the files that hold secrets are left out whole, and lines are masked as in code."""
    diff = (
        "diff --git a/.env b/.env\n--- a/.env\n+++ b/.env\n@@ -0,0 +1 @@\n+FOO=hunter2\n"
        'diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+api_key = "abcd1234efgh"\n'
        "diff --git a/c.yaml b/c.yaml\n--- a/c.yaml\n+++ b/c.yaml\n@@ -1 +1 @@\n+api_key: abcd1234efgh\n+lr: 0.1\n"
    )
    cleaned, count = clean_diff(diff)

    assert "hunter2" not in cleaned
    assert "abcd1234" not in cleaned
    assert count == 3
    assert "-x = 1\n" in cleaned
    assert "+lr: 0.1\n" in cleaned


@pytest.mark.parametrize(
    "piece",
    ["a", "a=", "a://", "a@", "?a=b", '"a":', "x: ", "password = ", "-----BEGIN PRIVATE KEY-----", ";pwd=x",
     ";a b=", "sk-a-", "eyJ-", "://a:/", 'key="0123456789abcdef0123",', "key: 0123456789abcdef0123\n", "- ", "w({",
     "curl -u a:", " -u a:", "--token ", "--token=a1b2c3", "token=", "'token: ", '"x: a; ', "\\\\\\n", "Basic ",
     "Digest response=", "a1_://a:", "/bot123456:", "/webhooks/1234567890", "/services/T0000000", "/webhook/0a-",
     "\\u0026sig=a", "Authorization: a ", "authorization ", "Authorization: Token a=", "authorization Signature=aaaa",
     '"--token",', '"--token", default=', '"--token", default="a1b2c3d4"', "#define key ", "export token=", "%env key ",
     "://a:/@b", "://a:b@c/@-", "/hooks/catch/1234567/", "/hooks/a0", "auth: a ",
     "auth: auth: a", "hf_key=a.", "hf_key: a.1.", "otp=a_", "token: a[b[", "token: a | b", 'token = \\"a'],
)  # fmt: skip
def test_no_text_takes_long(piece):
    """However a text is made up, it is looked at in time that grows with its length alone."""

    def look(text):
        masks.text(text)
        masks.argv([text])
        clean(text, "a.py")
        clean(text, "a.yaml")
        clean(text, "a.sh")

    assert grows_with_length(look, piece)
