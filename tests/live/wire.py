"""A wire between two network devices: it carries Ethernet frames both ways, late, and loses some of them.

It stands in for the kernel's netem where that is missing. It runs as a program of its own, in the network namespace of
both devices:

    wire.py plain DEVICE...                    compute checksums before sending, so that frames can be carried as bytes
    wire.py carry ONE OTHER DELAY LOSS SEED    seconds that a frame takes, part of the frames that is lost
"""

import ctypes
import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
PACKET, IGNORE_OUTGOING = 263, 23  # SOL_PACKET, PACKET_IGNORE_OUTGOING
EVERY_PROTOCOL = 0x0003
LONGEST = 65_536
ROOM = 4 << 20  # bytes that may wait in a socket


def plain(device):
    """Have the kernel compute checksums and cut long packets itself, instead of leaving it to a network card."""
    order = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP", device.encode(), ctypes.addressof(order))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCETHTOOL, request)


def end_of(device):
    """One end of the wire."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    end.setsockopt(PACKET, IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    end.bind((device, 0))
    end.setblocking(False)
    return end


def carry(one, other, delay, loss, seed):
    """Carry frames until the program is killed; frames of one direction never overtake each other."""
    chance, ends = random.Random(seed), (end_of(one), end_of(other))
    way = {ends[0]: ends[1], ends[1]: ends[0]}
    late, count = [], 0
    print("carrying", flush=True)
    while True:
        wait = None if not late else max(0.0, late[0][0] - time.monotonic())
        for end in select.select(ends, (), (), wait)[0]:
            frame = end.recv(LONGEST)
            if chance.random() >= loss:
                heapq.heappush(late, (time.monotonic() + delay, count, way[end], frame))
                count += 1
        while late and late[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(late)
            try:
                end.send(frame)
            except OSError:  # the device is full or down: the frame is lost
                continue


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        for name in sys.argv[2:]:
            plain(name)
    else:
        carry(*sys.argv[2:4], *map(float, sys.argv[4:6]), int(sys.argv[6]))
