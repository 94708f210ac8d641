"""What is fast enough and what is never lost, measured: `scripts/bench` runs it all and writes RESULTS.md."""
