"""What the classifier calls its monitor. To import it lets calls of `logging` have several messages.

- `progress`: `Progress`, as the classifier imports it
- `usage`: `Usage`, as the classifier imports it
"""

from vedette.compat.classifier.messages import accept

accept()
