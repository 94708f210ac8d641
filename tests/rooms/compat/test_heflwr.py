"""What heflwr's clients send, read: numbers, lines, times; and nothing worse than a sentence for the rest."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette.compat.heflwr import wire as heflwr
from vedette.errors import FormatError

CASES = Path(__file__).parents[2] / "journeys" / "heflwr_wire"
NOW = 1_794_810_000 * 10**9


def case(name):
    return (CASES / f"{name}.http").read_bytes().partition(b"\r\n\r\n")[2]


def test_simple():
    """A simple message gives who sent it, and its numbers."""
    form = heflwr.parse(case("simple"), NOW)

    assert (form.identifier, form.level, form.t, form.where) == ("client A", 20, None, {})
    assert form.numbers == {
        "cpu_usage": 0.0, "memory_usage": 0.11073470279408627, "network_bytes_sent": 959, "network_bytes_recv": 959,
    }  # fmt: skip
    assert heflwr.values_of(form.numbers).keys() == {*form.numbers, "cpu_percent", "memory_share_percent"}


def test_full():
    """A full one gives its time, too."""
    form = heflwr.parse(case("full"), NOW)

    assert form.numbers["network_bytes_sent"] == 1566
    assert abs(form.t - 1_794_808_033_468_936_400) < 1000
    assert form.where["file"] == "remote_monitor.py"


def test_a_line_of_a_log():
    """What is not made of the known numbers is a line, with its level, file and line."""
    form = heflwr.parse(case("line"), NOW)

    assert (form.identifier, form.level, form.message) == ("client B", 30, "accuracy 0.50, größer & <b>")
    assert form.numbers == {}
    assert (form.where["file"], form.where["line"], form.where["logger"]) == ("train.py", 14, "HeFlwr")


@pytest.mark.parametrize(
    "message",
    ["", " ", "Cpu Usage: , ", "Cpu Usage: 1.2.3%, ", "Cpu Usage: 0.5%, and more", "x: 1, ", "Cpu Usage: 0.5%, \n",
     "Cpu Usage: 1_0%, ", "Cpu Usage: ٣%, ", "Cpu Usage: 1e999999%, ", "Cpu Usage: 5%; Memory Usage: 5%, ",
     "Cpu Usage: 0x10%, ", "Cpu Usage:5%, ", "Cpu Usage: 5%, , "],
)  # fmt: skip
def test_what_is_no_number(message):
    """A message with anything else in it is a line, whole."""
    assert heflwr.numbers_in(message) == {}


def test_every_label():
    """The labels of the file and of the message are both known."""
    sent = "Cpu Usage: 1.5%, Memory Usage: 5e-05%, Bytes Sent: 1, Bytes Recv: 2, "
    sent += "VDD In: 3, VDD cpu_gpu_cv: 4, VDD soc: 5, "
    written = sent.replace("Cpu U", "CPU U").replace("cpu_gpu_cv", "Cpu_Gpu_Cv").replace("soc", "Soc")

    assert list(heflwr.numbers_in(sent).values()) == [1.5, 5e-05, 1, 2, 3, 4, 5]
    assert heflwr.numbers_in(written) == heflwr.numbers_in(sent)


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"identifier=a", b"message=a", b"identifier=&message=a", b"identifier=%20&message=a", b"\xff\xfe=1",
     b"identifier=a%0Ab&message=x", b"identifier=" + b"a" * 201 + b"&message=x", b"&".join([b"a=b"] * 100),
     b"identifier=a&message=" + b"x" * 33_000, b"identifier=a&message=" + b"x" * 70_000, b'{"identifier": "a"}'],
)  # fmt: skip
def test_what_is_refused(body):
    """What is none of these forms is refused in a sentence."""
    with pytest.raises(FormatError) as said:
        heflwr.parse(body, NOW)
    assert 10 < len(str(said.value)) < 200


@pytest.mark.parametrize("created", ["nan", "inf", "-1", "1e300", "x", "", "0", "99999999999", "9" * 5000])
def test_a_time_that_cannot_be(created):
    """A time that is none, or far off, is not believed."""
    assert heflwr.parse(f"identifier=a&message=b&created={created}".encode(), NOW).t is None


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"identifier=a&message={text}".encode()))
@settings(max_examples=times(80), deadline=None)
def test_anything_at_all(body):
    """Whatever comes is a form or a sentence."""
    try:
        form = heflwr.parse(body, NOW)
    except FormatError:
        return
    form.message.encode()
    assert form.identifier


@given(st.text(max_size=100))
def test_any_header(text):
    """Whatever the header says is a moment or none."""
    found = heflwr.moment(text)
    assert found is None or found.t < 1 << 63
