"""Files of runs: kept when `save` has returned, whole wherever they can be seen, and gone when nothing names them."""

import hashlib
import json
import os
import signal
import sys

import pytest

from tests.journeys.conftest import eventually, read_runs
from tests.journeys.test_relay import connect_string, listen, runs
from tests.rooms.conftest import call
from vedette.blobs import Blobs
from vedette.query.files import files

SAVER = """
    import os, sys, vedette
    run = vedette.init(name="saver", usage=False)
    at = 0
    while True:
        data = os.urandom(1 << 16) + bytes(int(sys.argv[1]))
        with open("out.bin", "wb") as file:
            file.write(data)
        digest = run.save("out.bin", f"{at}.bin")
        print(digest, flush=True)
        at += 1
"""


def torn(blobs):
    """Return the blobs that can be seen and are not what their names say."""
    return [found.digest for found in blobs.all() if not blobs.verify(found.digest)]


@pytest.mark.parametrize("size", [0, 4 << 20])
def test_kill_in_the_middle_of_saving(home, hub, start, tmp_path, size):
    """When save() has returned a kill -9 loses nothing; what was being saved is not seen by halves."""
    os.makedirs(tmp_path / "work")
    process = start(SAVER, str(size), cwd=tmp_path / "work")
    said = [process.stdout.readline().strip() for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    rest, err = process.communicate()
    said += [line for line in rest.splitlines() if len(line) == 64]
    assert err == ""

    blobs = Blobs(home)
    found = {file.digest: file for file in read_runs(home)[0].files()}
    assert set(said) <= set(found)
    assert all(blobs.verify(digest) for digest in found)
    assert torn(blobs) == []
    with open(blobs.path(said[0]), "r+b") as file:  # the check sees a torn one
        file.truncate(100)
    assert torn(blobs) == [said[0]]


def test_saving_never_raises_and_is_counted(home, finish, tmp_path):
    """What cannot be kept is refused, said once on stderr, and counted; the program goes on."""
    code, out, err = finish(
        """
        import os, vedette
        run = vedette.init(usage=False)
        for what in (["missing"], ["/"], [b"nameless"], [3], [None, "x"], [b"x", "n" * 1000], ["/dev/zero"], ["a\\0b"]):
            assert run.save(*what) is None
        assert run.save(b"b" * 2000, "big") is None
        assert run.use("missing") is None
        assert run.save(b"fits", "sub/../ fits") is not None
        vedette.save(b"other", "../../etc/passwd")
        print("went on")
        """,
        environ={"VEDETTE_LIMITS_BLOB_BYTES": "1000"},
    )
    assert (code, out) == (0, "went on\n")
    assert err.count("refused") >= 6
    assert "failed" not in err
    assert "limit of 1000" in err
    run = read_runs(home)[0]
    assert [file.name for file in run.files()] == ["../../etc/passwd", "sub/../ fits"]
    [event] = run.logs(kind="refused")
    assert event.attrs["count"] == 10
    assert {entry.name for entry in os.scandir(tmp_path) if "passwd" in entry.name} == set()


def test_files_are_listed_and_written_out(home, hub, finish, tmp_path):
    """`vedette files` lists the newest of each name and writes bytes out; no name of a file is ever a path."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "data.bin").write_bytes(b"input")
    code, _, err = finish(
        r"""
        import vedette
        run = vedette.init(usage=False)
        run.save(b"old", "a.txt")
        run.save(b"new \x1b]0;title\x07", "a.txt")
        run.save(b"\x89PNG\r\n\x1a\n...", "../../evil.txt")
        run.save(b'{"x": 1}', "m.json")
        run.save(b"<svg onload=alert(1)></svg>", "pic.svg")
        run.use("data.bin")
        print(run.id)
        """,
        cwd=work,
    )
    assert (code, err) == (0, "")
    run = read_runs(home)[0]
    media = {file.name: file.media for file in run.files()}
    assert media == {
        "a.txt": "application/octet-stream",  # it rings the bell
        "../../evil.txt": "image/png",
        "m.json": "application/json",
        "pic.svg": "text/plain",
    }
    assert run.attrs["data.data.bin"] == hashlib.sha256(b"input").hexdigest()
    assert run.attrs["data_bytes.data.bin"] == 5

    listed = call("files", run.id, home=home.asked)
    assert listed.returncode == 0
    assert "evil.txt" in listed.stdout
    as_json = json.loads(call("files", run.id, "--json", home=home.asked).stdout)
    assert {one["name"] for one in as_json} == set(media)
    assert all(one["here"] for one in as_json)
    assert call("files", run.id, "a.txt", home=home.asked, text=False).stdout == b"new \x1b]0;title\x07"
    target = tmp_path / "target"
    assert call("files", run.id, "../../evil.txt", "-o", str(target), home=home.asked).returncode == 0
    assert target.read_bytes() == b"\x89PNG\r\n\x1a\n..."
    for wrong in (["../../evil.txt", "-o", str(target)], ["none"], ["m.json", "-o", str(tmp_path)]):
        refused = call("files", run.id, *wrong, home=home.asked)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.count("\n") == 1


def age(blobs):
    """Make all blobs of a home old enough to be removed."""
    for found in blobs.all():
        os.utime(blobs.path(found.digest), (0, 0))


def test_bytes_go_with_the_last_run_that_names_them(home, hub, finish):
    """`rm --now` deletes the bytes of a run that no other has, those that a manifest lists too, and no others."""
    script = """
        import json, sys, vedette
        run = vedette.init(name=sys.argv[1], usage=False)
        run.save(b"shared", "shared")
        run.save(sys.argv[1].encode(), "own")
        listed = run._journal.blobs.keep(b"code of " + sys.argv[1].encode())
        manifest = [{"path": "x.py", "digest": listed[0], "size": listed[1], "mode": 0}]
        run.save(json.dumps(manifest).encode(), "code.manifest")
    """
    for name in ("first", "second"):
        assert finish(script, name)[0] == 0
    blobs = Blobs(home)
    eventually(lambda: len(read_runs(home)) == 2)
    assert len(list(blobs.all())) == 7
    young, _ = blobs.keep(b"just saved, and not named yet")
    for found in blobs.all():
        if found.digest != young:
            os.utime(blobs.path(found.digest), (0, 0))
    assert call("rm", "first", "--now", "--yes", home=home.asked).returncode == 0
    left = {hashlib.sha256(data).hexdigest() for data in (b"shared", b"second", b"code of second")}
    kept = left | {young} | {file.digest for file in read_runs(home)[-1].files()}
    eventually(lambda: {found.digest for found in blobs.all()} == kept, 30)
    assert torn(blobs) == []


def test_export_and_sync_carry_files(home, hub, finish, tmp_path):
    """An archive, a home and a store bring the bytes of their runs with them; a changed byte is refused."""
    work = tmp_path / "work"
    work.mkdir()
    script = """
        import json, vedette
        run = vedette.init(name="carried", usage=False)
        run.save(b"some bytes", "a")
        run.save(bytes(3 << 20), "b")
        run.save(b"", "empty")
        listed = run._journal.blobs.keep(b"code")
        run.save(json.dumps([{"path": "x.py", "digest": listed[0], "size": 4, "mode": 0}]).encode(), "code.manifest")
    """
    assert finish(script)[0] == 0
    [run] = read_runs(home)
    archive = tmp_path / "one.vedette"
    done = call("export", run.id, "-o", str(archive), home=home.asked)
    assert (done.returncode, done.stderr) == (0, "")

    for number, path in enumerate((archive, home.root, home.store)):
        other = str(tmp_path / f"other{number}")
        taken = call("sync", str(path), home=other)
        assert (taken.returncode, taken.stderr) == (0, "")
        there = Blobs(other)
        assert {found.digest for found in there.all()} == {found.digest for found in Blobs(home).all()}
        assert torn(there) == []
        assert [one["here"] for one in json.loads(call("files", "carried", "--json", home=other).stdout)] == [True] * 4

    again = tmp_path / "again.vedette"
    assert call("export", "carried", "-o", str(again), home=str(tmp_path / "other0")).returncode == 0
    assert again.read_bytes() == archive.read_bytes()  # the same of the same run, wherever it is written

    data = bytearray(archive.read_bytes())
    data[-5] ^= 1
    for wrong in (bytes(data), archive.read_bytes()[:-1], archive.read_bytes() + b"x"):
        bad = tmp_path / "bad.vedette"
        bad.write_bytes(wrong)
        refused = call("sync", str(bad), home=str(tmp_path / "fresh"))
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert torn(Blobs(str(tmp_path / "fresh"))) == []


FAR = """
    import json, os, sys, vedette
    run = vedette.init(name="far", usage=False)
    big = os.urandom(12 << 20)
    listed = run._journal.blobs.keep(b"code of far")
    print(run.save(b"small", "small"), run.save(b"", "empty"), run.save(big, "big"), listed[0], flush=True)
    manifest = [{"path": "x.py", "digest": listed[0], "size": listed[1], "mode": 0}]
    run.save(json.dumps(manifest).encode(), "code.manifest")
    for step in range(2000):
        run.log({"x": step}, step=step)
"""


def test_files_of_another_host_come_over_a_link_that_is_cut(lan):
    """A blob goes on where the link was cut, is seen when it is whole, and what is logged does not wait for it."""
    far, here = lan(2)
    listen(here)
    far.delay(40)
    code, out, err = far.run(FAR, VEDETTE_HUB=connect_string(here))
    assert (code, err) == (0, "")
    digests = out.split()
    there = Blobs(here.home)
    parts = os.path.join(there.root, "parts")

    def come():
        return max((entry.stat().st_size for entry in os.scandir(parts)), default=0) if os.path.isdir(parts) else 0

    eventually(lambda: come() > 1 << 18, 60)
    far.cut()
    before = come()
    assert there.size(digests[2]) is None
    eventually(lambda: [row.count for run in runs(here) for row in run.series()] or None, 60)
    far.heal()
    eventually(lambda: come() >= before or there.size(digests[2]) is not None, 60)
    eventually(lambda: all(there.size(digest) is not None for digest in digests), 120)
    assert torn(there) == []
    eventually(lambda: not come(), 30)
    run = eventually(lambda: next((run for run in runs(here) if run.end_t and run.series()[0].count == 2000), None), 60)
    assert {file.name for file in run.files()} >= {"small", "empty", "big", "code.manifest"}
    outward = os.path.join(far.home, "blobs", "outward")
    eventually(lambda: [name for _, _, names in os.walk(outward) for name in names] == ["address"], 30)


def test_a_hub_that_dies_goes_on_with_files_later(lan):
    """Both hubs are killed with -9 while a blob is on its way: the next ones go on, and the blob comes."""
    far, here = lan(2)
    listening = listen(here)
    far.delay(40)
    code, out, _ = far.run(FAR, VEDETTE_HUB=connect_string(here))
    assert code == 0
    there = Blobs(here.home)
    parts = os.path.join(there.root, "parts")
    eventually(lambda: os.path.isdir(parts) and os.listdir(parts), 60)
    far.end_hub(signal.SIGKILL)
    here.kill(listening, signal.SIGKILL)
    os.unlink(os.path.join(here.home, "hub.connect"))
    listen(here)
    far.heal()
    far.start([sys.executable, "-m", "vedette", "hub", "--quiet"])
    eventually(lambda: all(there.size(digest) is not None for digest in out.split()), 120)
    assert torn(there) == []


def test_files_go_through_a_hub_in_the_middle(lan):
    """A hub that passes on what others ship passes on their files, and keeps none of them for good."""
    far, middle, here = lan(3)
    listen(here)
    listen(middle, VEDETTE_HUB_ONWARD=connect_string(here))
    code, out, _ = far.run(FAR, VEDETTE_HUB=connect_string(middle))
    assert code == 0
    there = Blobs(here.home)
    eventually(lambda: all(there.size(digest) is not None for digest in out.split()), 120)
    assert torn(there) == []
    for host in (far, middle):
        outward = os.path.join(host.home, "blobs", "outward")
        eventually(lambda of=outward: [name for _, _, names in os.walk(of) for name in names] == ["address"], 60)


def test_what_is_over_the_limit_of_the_other_hub_is_refused_and_said(lan):
    """A blob that the keeping hub does not take is not sent; its name is kept, and both hubs say so."""
    far, here = lan(2)
    listen(here, "--set", "limits.blob_bytes=1000")
    code, out, _ = far.run(FAR, VEDETTE_HUB=connect_string(here))
    assert code == 0
    small, _, big, _ = out.split()
    there = Blobs(here.home)
    eventually(lambda: there.size(small), 60)
    doctor = [sys.executable, "-m", "vedette", "doctor", "--json"]
    eventually(lambda: "limits.blob_bytes" in here.run(doctor)[1], 60)
    eventually(lambda: "it refused a file" in far.run(doctor)[1], 60)
    assert there.size(big) is None
    assert "big" in {file.name for run in runs(here) for file in files(run._store, run.id)}
