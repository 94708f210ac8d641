"""What a thread prints while it is hushed stays off the record: it is there by another word, or is a word of ours.

Whoever hushes it puts back what held before by an assignment in a `finally`, never by a call: at the entry of a
function an interrupt may come in, and the thread would be hushed for ever.
"""

import threading


class _Thread(threading.local):
    on = False
    warned = False  # a warning is being shown, which is on record already


here = _Thread()
