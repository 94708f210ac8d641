"""What the classifier calls its monitor.

- `progress`: `Progress`, as the classifier imports it
- `usage`: `Usage`, as the classifier imports it
"""
