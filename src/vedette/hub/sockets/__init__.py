"""The hub's sockets: who may connect, and what they may ask.

- `port`: the TCP port, and where it is opened
- `server`: admits connections and answers them
- `connection`: one open connection: frames <-> messages
- `questions`: hands answers to the processes that asked
"""
