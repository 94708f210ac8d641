"""Tells whether a call stands in the head of a `with` block: `with vedette.init(...) as run:`.

A run that is begun so ends with its block, so it may be open beside the run around it. `init` must know that before it
returns, and `__enter__` is called after that; so we look at the instruction that follows the call.
"""

import opcode
from types import FrameType

_NAMES = ("BEFORE_WITH", "COPY", "LOAD_SPECIAL")  # to 3.13 the first one; since then the others, in this order


def is_head_of_with(frame: FrameType) -> bool:
    """Tell whether the call that a frame is in stands in the head of a `with`; False if that cannot be told."""
    code = frame.f_code.co_code
    following = [code[at] for at in range(frame.f_lasti + 2, min(len(code), frame.f_lasti + 24), 2)]
    names = [opcode.opname[number] for number in following if opcode.opname[number] != "CACHE"][:2]
    return names[:1] == [_NAMES[0]] or names == [*_NAMES[1:]]
