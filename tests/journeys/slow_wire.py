"""Copies packets between two network interfaces, and delays, reorders or drops some, as `tc netem` does.

It is for kernels without netem. It ends when its standard input ends, so that it never outlives the test.
"""

import heapq
import random
import select
import socket
import sys
import time

_ALL = 0x0003  # ETH_P_ALL
_SOL_PACKET, _VNET_HDR, _IGNORE_OUTGOING = 263, 15, 23
_MOST = 70_000  # a large packet that the kernel has not segmented yet, with its header


def main() -> None:
    """Take both interfaces, delay and jitter in ms, the shares to reorder and to lose in percent, and a seed."""
    names = sys.argv[1:3]
    delay, jitter = (float(word) / 1e3 for word in sys.argv[3:5])
    reorder, loss = (float(word) / 1e2 for word in sys.argv[5:7])
    chance = random.Random(sys.argv[7])
    ends = [_open(name) for name in names]
    print("ready", flush=True)  # noqa: T201 - until then packets are lost
    waiting: list[tuple[float, int, int, bytes]] = []  # when it is due, its number, where to, the packet
    last = [0.0, 0.0]
    number = 0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], pause)
        if sys.stdin in ready:
            return
        now = time.monotonic()
        for side, end in enumerate(ends):
            while end in ready:
                try:
                    packet = end.recv(_MOST)
                except OSError:  # nothing more for now, or the interface is down
                    break
                if chance.random() < loss:
                    continue
                due = now
                if chance.random() >= reorder:  # the others overtake
                    due = last[side] = max(last[side], now + delay + chance.uniform(-jitter, jitter))
                number += 1
                heapq.heappush(waiting, (due, number, 1 - side, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(waiting)
            try:
                ends[to].send(packet)
            except OSError:  # the interface is down or its queue is full: lost, as on a wire
                pass


def _open(name: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(_SOL_PACKET, _VNET_HDR, 1)  # pass on the kernel's notes on checksums and segmentation
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.setblocking(False)
    end.bind((name, _ALL))
    return end


if __name__ == "__main__":
    main()
