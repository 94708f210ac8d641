"""How another process reads a home: commands, views, `vedette.runs` and notebooks all come this way.

`home_access` is one home in a reader's hand (`HomeAccess`: open the store, ask the hub); `hub_socket` is the
conversation with the hub over its socket; `follower` waits for changes from a hub that may come and go.
Nothing here imports numpy, rich, asyncio or hashlib before it is needed: `vedette ls` stands on it.
"""
