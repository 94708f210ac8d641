"""What speaks: one file for each source. A source knows nobody who listens."""
