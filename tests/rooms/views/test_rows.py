"""What `vedette monitor` prints of what it has measured."""

from vedette.views.rows import summary_lines


def test_the_whole_machine_is_at_most_100_percent():
    """A share of the host that ticks of the kernel make larger is shown as 100 %; other CPU use is not capped."""
    more = {"mean": 101.4, "max": 102.3}
    lines = summary_lines({"cpu_percent": more, "cpu_share_percent": more, "host_cpu_share_percent": more})

    assert [line.split() for line in lines] == [
        ["CPU", "mean", "101%", "max", "102%"],
        ["CPU", "share", "mean", "101%", "max", "102%"],
        ["host", "CPU", "share", "mean", "100%", "max", "100%"],
    ]
