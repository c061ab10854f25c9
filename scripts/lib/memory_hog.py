#!/usr/bin/env python3
"""Somebody else on the machine: copies memory on one core until it is ended.

Not gpueta's own contention, so that a target beside it is a target of its own.

  memory_hog.py CORE
"""

import os
import sys

BYTES = 192 << 20  # more than caches hold
COPY = 1 << 20


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("memory_hog.py CORE")
    os.sched_setaffinity(0, {int(sys.argv[1])})
    source = memoryview(bytearray(b"\1") * BYTES)
    target = memoryview(bytearray(b"\2") * BYTES)
    print("copying", flush=True)
    while True:
        for at in range(0, BYTES, COPY):
            target[at : at + COPY] = source[at : at + COPY]


if __name__ == "__main__":
    main()
