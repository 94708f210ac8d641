"""What programs say, from real processes: every worker is heard, exceptions are named, and nothing is lost."""

import re
import signal
import subprocess

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs

WORKERS = """
    import logging, multiprocessing, sys
    from concurrent.futures import ProcessPoolExecutor

    def work(number):
        logging.info("record %d", number)
        print("line", number)

    def fail():
        raise RuntimeError("worker boom")

    def parent(number):
        start(multiprocessing.get_context("spawn").Process(target=work, args=(number,)))

    def start(process):
        process.start()
        process.join()

    if __name__ == "__main__":
        import vedette
        vedette.init(name="workers")
        context = multiprocessing.get_context(sys.argv[1])
        start(context.Process(target=work, args=(1,)))
        start(context.Process(target=fail))
        start(context.Process(target=parent, args=(2,)))
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            list(pool.map(work, [3, 4]))
        vedette.finish()
        start(context.Process(target=work, args=(5,)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_are_heard_without_a_line_in_them(finish, home, hub, method):
    """Workers of every start method, of pools and of workers join by themselves, each under its own name."""
    code, out, err = finish(WORKERS, method)

    assert code == 0, err
    assert out.splitlines() == [f"line {number}" for number in range(1, 6)]
    [run] = read_runs(home)
    for kind, word in (("log", "record"), ("output", "line")):
        events = run.logs(kind=kind)
        assert sorted(event.text for event in events) == [f"{word} {number}" for number in range(1, 5)]
        assert len({event.pid for event in events}) == 3
        assert all(event.attrs["pid"] == event.pid for event in events)
    [failure] = run.logs(kind="exception")
    assert failure.attrs["message"] == "RuntimeError: worker boom"
    assert failure.text.startswith("Traceback")
    assert [process.cause for process in run.processes() if process.state == "failed"] == ["RuntimeError: worker boom"]
    assert "RuntimeError: worker boom" in err


SAYINGS = """
    import asyncio, logging, os, sys, threading, warnings
    import vedette
    vedette.init(name="says")

    class Dying:
        def __del__(self):
            raise RuntimeError("in del")

    async def lost():
        raise RuntimeError("in task")

    async def main():
        task = asyncio.ensure_future(lost())
        await asyncio.sleep(0.01)
        del task

    def fail():
        raise RuntimeError("in thread")

    thread = threading.Thread(target=fail, name="worker-7")
    thread.start()
    thread.join()
    Dying()
    asyncio.run(main())
    warnings.warn("careful")
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn("for nobody")
    logging.captureWarnings(True)
    warnings.warn("by logging")
    logging.captureWarnings(False)
    if (pid := os.fork()) == 0:
        print("forked")
        raise RuntimeError("in child")
    os.waitpid(pid, 0)
    print("\\N{ESCAPE}[1mbold", file=sys.stderr)
    print("before", end="")
    raise RuntimeError("at the end")
"""


def test_exceptions_and_warnings_of_all_kinds(finish, home, hub):
    """Exceptions of threads, finalisers, tasks, forks and the program, and warnings, are events of their kind, once."""
    code, out, err = finish(SAYINGS)

    assert code == 1
    [run] = read_runs(home)
    exceptions = {event.attrs["message"]: event for event in run.logs(kind="exception")}
    assert exceptions.keys() == {
        f"RuntimeError: {where}" for where in ("in thread", "in del", "in child", "at the end")
    }
    assert exceptions["RuntimeError: in thread"].attrs["thread"] == "worker-7"
    assert exceptions["RuntimeError: in del"].attrs["unraisable"] is True
    assert all(event.attrs["type"] == "RuntimeError" for event in exceptions.values())
    [task] = run.logs(kind="log", level="error")
    assert task.attrs["logger"] == "asyncio"
    assert "RuntimeError: in task" in task.attrs["exception"]
    [warning] = run.logs(kind="warning")
    assert (warning.text, warning.level, warning.attrs["category"]) == ("careful", 30, "UserWarning")
    assert warning.attrs["file"].endswith(".py")
    [captured] = run.logs(kind="log", grep="by logging")
    assert captured.attrs["logger"] == "py.warnings"
    assert sorted(event.text for event in run.logs(kind="output")) == ["before", "bold", "forked"]
    for shown in ("in thread", "in del", "in child", "at the end", "careful"):
        assert shown in err
    assert out == "forked\nbefore"
    assert run.cause == "RuntimeError: at the end"


BURST = """
    import logging, sys
    import vedette
    vedette.init(name="burst")
    print("begun", flush=True)
    sys.stdin.readline()
    for number in range(5000):
        logging.info("line %d", number)
    print("said", flush=True)
    sys.stdin.readline()
"""


def losses(run):
    """Return how many of the lines of the burst are not there; fail where one came twice."""
    found = [event.text for event in run.logs(kind="log")]
    assert len(found) == len(set(found))
    return 5000 - len(found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_burst_outlives_the_hub(start, home, number):
    """5000 log lines in a burst, the hub then stopped with Ctrl-C or killed with -9: 5000 of 5000 there, in order."""
    script = start(BURST, stdin=subprocess.PIPE)
    assert script.stdout.readline() == "begun\n"
    eventually(home.hub_pid)
    script.stdin.write("\n")
    script.stdin.flush()
    assert script.stdout.readline() == "said\n"
    end_hub(home, number)
    script.kill()
    script.communicate()

    [run] = read_runs(home)
    assert losses(run) == 0
    assert [event.text for event in run.logs(kind="log")] == [f"line {number}" for number in range(5000)]


def test_the_check_of_a_burst_sees_what_is_lost(home, hub, finish):
    """The positive control: a client that forgets a record now and then is found out."""
    forgetful = """
        import logging
        import vedette
        from vedette.client import logs
        record, logs._record = logs._record, lambda *args: None if args[2].args[0] % 100 == 7 else record(*args)
        vedette.init(name="burst")
        for number in range(5000):
            logging.info("line %d", number)
    """
    finish(forgetful)

    assert losses(read_runs(home)[0]) == 50


def test_the_program_prints_as_without_us(finish, home, hub):
    """What a program prints, byte for byte and stream by stream, is the same with us and without."""
    script = """
        import faulthandler, logging, subprocess, sys
        import vedette
        vedette.init()
        print("a", "b", sep="|", end="!\\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(bytes(range(128, 160)) + b"\\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", "print('child')"], stdout=sys.stdout)
        print(sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding, type(sys.stdout).__name__)
        log = logging.getLogger("a")
        log.info("not shown")
        log.warning("shown")
        logging.basicConfig(format="%(levelname)s %(name)s %(funcName)s %(lineno)d %(message)s")
        log.info("not shown")
        log.warning("shown %s", "again")
        print(log.getEffectiveLevel(), logging.getLogRecordFactory().__name__)
        faulthandler.dump_traceback(file=sys.stderr)
    """
    said = []
    for environ in ({"VEDETTE_MODE": "off"}, {}, {"PYTHONUNBUFFERED": "1"}, {"VEDETTE_LOGS_LEVEL": "10"}):
        code, out, err = finish(script, environ=environ, errors="surrogateescape")
        assert code == 0
        said.append((out, re.sub(r"script\d+|0x\w+", "", err)))

    assert said[1:] == [said[0]] * 3
    assert "WARNING a <module> 16 shown again" in said[0][1]
    assert "not shown" not in said[0][1]
    assert len(read_runs(home)) == 3
