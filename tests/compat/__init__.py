"""The seeds' own examples, run as they stand but for the leading name."""
