"""Why something ended. Whoever saw something of an end gathers it as evidence, and one function judges it.

`evidence` is the struct; `verdict` judges it by one list of rules, without I/O. What is known comes from `liveness`,
which watches a process by a pidfd, from `memory`, which looks for kills by a kernel that ran out of memory, and from
`last_words`, which reads stacks and tracebacks. `tree` finds all processes below another one, and ends them.
The hub, the launcher and the client ask here.
"""
