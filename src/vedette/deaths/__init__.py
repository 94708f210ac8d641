"""Why something ended: what is known of a death, and what follows from it. The hub and the launcher both ask here.

`liveness` watches a process by a pidfd. `memory` looks for kills by the kernel that ran out of memory. `tree` finds all
processes below another one, and ends them. `causes` puts an end into words.
"""
