"""Other hubs: those that relay to this one (downstreams), and those that this one relays to (upstreams).

`address` parses connect strings. `downstreams` serves the hubs that relay here: what they ship goes to an `inbox`, is
unpacked by `parcels`, and becomes a `remote_origin`. `upstreams` knows where each origin goes, `relay` talks to one
such hub. Blobs follow: `blob_queue` has what is to be sent, `blob_sender` sends it, `blob_receiver` puts it together.
"""
