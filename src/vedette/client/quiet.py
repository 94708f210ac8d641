"""A flag per thread: what the thread prints while `quiet.on` is set is not recorded.

It is set while something is printed that is on record already, or that is a message of vedette itself.
Whoever sets the flag restores the old value by an assignment in a `finally`, never by a function call: an interrupt
(Ctrl-C) may come in when a function is entered, and the flag would stay set for ever.
"""

import threading


class _Quiet(threading.local):
    on = False
    in_warning = False  # `warnings` prints a warning that is on record already


quiet = _Quiet()
