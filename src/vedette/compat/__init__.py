"""Other people's names for what vedette does: translation only. Nothing imports this.

- `classifier`: the classifier's monitor: its imports and its command line
- `heflwr`: heflwr's monitors, log and wire
"""
