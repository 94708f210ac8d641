"""Other hubs: those that relay to this one (downstreams), and those that this one relays to (upstreams).

- `downstreams`: the connections of hubs that relay to this one
- `identity`: who a relay is: the key of its home
- `trust`: what a relay may say, and whose is what
- `inbox`: what they ship, as a connection writes it, and `inbox_reader`, as the keeper reads it
- `remote_origin`: one origin of another host, until it is committed
- `upstreams`: the hubs that this one relays to, as the keeper sees them
- `relay`: the connection to one of them
- `blob_queue`: the blobs that are to be sent
- `blob_sender`: sends them
- `blob_receiver`: receives blobs from other hubs
"""
