"""Inside the user's process: what it says goes into its spool, and nothing else ever happens here."""
