"""How other processes read a home: commands, views, `vedette.runs` and notebooks all use this room.

`home_access` opens the store and the bytes of files, and asks the hub (`HomeAccess`); `hub_socket` talks to the hub
over its socket; `hub_end` ends the hub; `follower` waits for changes from a hub that may come and go; `page_address`
says where the page is served.
Nothing here imports numpy, rich, asyncio or hashlib before it is needed, so that `vedette ls` starts fast.
"""
