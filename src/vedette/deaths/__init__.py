"""Finds out why something ended: whoever saw a part of the end adds it to the evidence, and one function judges it.

`evidence` is the struct; `verdict` judges it by one list of rules, without I/O. The evidence comes from
`process_watch`, which watches a process by a pidfd until it has ended, from `memory`, which looks for kills by the
out-of-memory killer, from `limits` of CPU time and batch jobs, and from `last_words`, which reads stacks, tracebacks
and what MPI and C++ print. `process_ends` says how several processes together have ended: ranks, and those below
`vedette run`. `tree` finds all processes below another one, and ends them. The hub, the launcher and the client use it.
"""
