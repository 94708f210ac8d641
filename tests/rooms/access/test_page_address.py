"""Where the page is served: known while its server lives, and not a moment longer."""

import os

from vedette.access.page_address import PageAddress, find_page, tell_page
from vedette.home import Home


def test_the_address_counts_while_its_server_holds_it(tmp_path):
    """A link is offered while the server lives, without a token; a file that was left behind counts for nothing."""
    home = Home(str(tmp_path))
    assert find_page(home) == PageAddress()
    fd = tell_page(home, PageAddress("http://localhost:7878", "http://localhost:7878"))
    assert find_page(home).of_run("r/1") == "http://localhost:7878/run/r%2F1"
    assert find_page(home).frame_of_run("r1") == "http://localhost:7878/run/r1"
    assert os.stat(tmp_path / "ui.address").st_mode & 0o777 == 0o600
    os.close(fd)
    assert find_page(home) == PageAddress()


def test_a_damaged_file_is_no_address(tmp_path):
    """A file that is not what it should be offers no link."""
    fd = tell_page(Home(str(tmp_path)), PageAddress("http://localhost:7878"))
    (tmp_path / "ui.address").write_text('{"base": 3}')
    assert find_page(Home(str(tmp_path))) == PageAddress()
    os.close(fd)
