"""The numbers of instructions in a listed program, which the checker and its compiled loop share.

The first four are transfers, and of these the first two put data into a buffer: code that compares numbers
relies on this order. ``LOOP`` and ``END`` stand before and behind the body of a repetition.
"""

from __future__ import annotations

LOAD, RECEIVE, SEND, STORE, COMPUTE, FREE, LOOP, END, HOLD = range(9)
