"""The hub's sockets: who may connect, and what they may ask.

`port` is the TCP listener, `server` admits connections and answers them, `connection` is one of them.
"""
