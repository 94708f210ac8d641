"""What answers: pure functions over a store."""
