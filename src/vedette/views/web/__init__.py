"""The web view: an HTTP API over a home, and the page that shows it (decisions/015).

- `serve`: the port, and who may reach it
- `server`: the table of all routes; it passes a request through guard and checks to its route
- `routes`: what a route is, and how a request finds its own
- `guard`: checks every request, turns a token in a URL into a cookie, and ends what is answered when a token is over
- `refusal`: the page for whoever is not let in
- `key`: the owner's token as it is now, and codes that stand for it once
- `handover`: opens the page in the owner's browser
- `links`: what a link to share says, and how it is signed
- `narrow`: what somebody with a link sees, in the place of `state`; `narrow_reader`: the same of the store;
  `manifests`: which files belong to the code of a run
- `state`: what all routes share
- `read_pool`: threads that read the store
- `updater`: the thread that follows the hub for all viewers
- `live`: the viewers, what each watches, and the changes that are sent to them
- `pages`: the files of the built page
- `openapi`: the description of the API
- `shapes`: the structs that the API answers with
- `replies`: answers as JSON, and refusals in one sentence

The other files have the functions of the routes, by what they tell of: `ROUTES` in `server` lists them, each with a
sentence.
"""
