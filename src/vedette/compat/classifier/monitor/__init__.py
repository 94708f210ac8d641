"""What the classifier calls its monitor."""
