"""The names of the classifier's monitor: its imports, and its command line.

`python -m vedette.compat.classifier monitor -setting Monitor "address: :10200"` is a server for many calls and
machines; `python -m vedette.compat.classifier [-setting ...] [-analysis monitor.Usage] script.py ...` runs a script.

- `__main__`: its command line
- `setting`: its settings, in our words
- `monitor`: what it imports
"""
