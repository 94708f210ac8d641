"""The hub: the program that reads the spools of this host, keeps the store, and answers on a socket.

- `program`: how it begins: limits, lock, store, log
- `service`: its sockets and relays, in an event loop
- `keeper_thread`: the thread that takes turns, and does between them what others ask
- `alarm`: wakes that thread
- `handle`: the hub as its sockets see it
- `health`: how the hub is, for `vedette doctor`
- `own`: writes what the hub and its helper processes say themselves, to spools of their own
- `log`: writes what goes wrong to the hub's log file
- `helper_process`: starts, tells and ends helper processes
- `listeners`: the helper processes that hear other people's clients
- `turn`: one pass over everything; it knows no socket
- `processes`: the processes of this host: alive, dead, progress, usage
- `sockets`: who may connect, and what they may ask
- `peers`: other hubs: upstreams and downstreams
"""

from vedette.lean_start import import_msgspec

import_msgspec()  # before any module of the room does, in the hub and in its helper processes
