"""What heflwr calls its monitors: each in a process of its own, or in a thread.

- `process_monitor`: the three monitors in a process of their own
- `thread_monitor`: the three monitors in a thread
- `watching`: one monitor, from each start() to its stop()
- `numbers`: what was measured, by the original's keys
"""
