"""The hub: the program that reads the spools of this host, keeps the store, and answers on a socket.

`program` is how it begins, `service` its sockets and relays in an event loop, `keeper_thread` the thread that takes
turns, which `alarm` wakes. `health` says how it is, `log` writes what goes wrong. `handle` is the hub as its sockets
see it. `helper` starts, tells and ends helper processes. `listeners` are the helper processes that hear other
people's clients.
"""

from vedette.lean_start import import_msgspec

import_msgspec()  # before any module of the room does, in the hub and in its helper processes
