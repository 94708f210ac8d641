"""The names of the classifier's monitor: its imports, and its command line.

`python -m vedette.compat.classifier monitor -setting Monitor "address: :10200"` is a server for many calls and
machines; `python -m vedette.compat.classifier script.py ... [-setting ...] [-analysis monitor.Usage]` runs a script.

- `__main__`: its command line
- `setting`: its settings, in our words
- `server`: the server that a user starts by hand
- `connection`: where the records of a call go
- `report`: what `-analysis` draws
- `messages`: several messages in one call of `logging`
- `monitor`: what it imports
"""
