"""What shows."""
