# SPDX-License-Identifier: Apache-2.0
"""A daemon's side of the protocol, for tests of its clients.

Numbers of the message types and the layout of what is used here come from base/wire/messages.h:
the former are read from it, the latter are the struct formats below.
"""

import array
import os
import pathlib
import re
import socket
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
_LIST = (ROOT / "base/wire/messages.h").read_text().split("define GP_WIRE_MESSAGES(X)")[1]
TYPES = {name: 1 + i for i, name in enumerate(re.findall(r"X\((\w+), \w+, struct", _LIST))}
NAMES = {number: name for name, number in TYPES.items()}

HEADER = struct.Struct("=IIQQII")  # type, size, job, epoch, cookie, proc
BODIES = {
    "HELLO": struct.Struct("=IIII32s"),  # version_min, version_max, role, device, program
    "WELCOME": struct.Struct("=II"),  # version
    "OK": struct.Struct("=Q"),
    "END": struct.Struct("=Q"),
    "LOG": struct.Struct("=Q"),
    "LOGS": struct.Struct("=Q"),
    "LIST": struct.Struct("=Q"),
    "DEVICES": struct.Struct("=Q"),
    "SHOW": struct.Struct("=Q"),
    "WAIT": struct.Struct("=Q"),
    "CANCEL": struct.Struct("=Q"),
    "RESUME": struct.Struct("=Q"),
    "ERROR": struct.Struct("=iI256s"),  # code, text
    "SUBMIT": struct.Struct("=iIIIQ64s"),  # priority, n_args, n_env, blob_bytes, mem_bytes, name
    "PREEMPT": struct.Struct("=II"),  # to
    "STARTED": struct.Struct("=II"),  # pid
    "EXITED": struct.Struct("=ii"),  # exit_code, exec_errno
    "SIGNAL": struct.Struct("=iI"),  # signo
    # id, state, priority, uid, pid, exit_code, device, n_preemptions, held, 4 sizes, 3 times,
    # report (7 times, 4 sizes, mid_kernel, n_channels), name, cause, command
    "JOB": struct.Struct("=QIiIIiIII4Q3Q7Q4QII64s128s256s"),
    # ordinal, ready, total, free, arena, arena_used, swap, swap_used, kind, name
    "DEVICE": struct.Struct("=II6Q16s64s"),
}
STATES = {"queued": 1, "running": 3, "frozen": 5, "swapped": 7, "done": 10, "failed": 11,
          "cancelled": 12}


def job(number, state="running", name="job", exit_code=-1, command="true", cause="", priority=0,
        held=0, report=(0,) * 13):
    """The fields of a JOB message."""
    return (number, STATES[state], priority, os.getuid(), 4711, exit_code, 0, 1, held, 1 << 30,
            700 << 20, 0, 0, 10**18, 10**18, 0, *report, name.encode(), cause.encode(),
            command.encode())


class Message:
    def __init__(self, header, body, fds):
        number, _, self.job, self.epoch, self.cookie, self.proc = header
        self.type = NAMES[number]
        self.fields = BODIES[self.type].unpack(body)
        self.fds = fds


class Peer:
    """One accepted connection."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(20)

    def recv(self, want=None):
        """The next message; None when the other side has closed. @want: its type is checked."""
        data, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(64 * 4))
        fds = array.array("i")
        for _, _, fd_bytes in ancillary:
            fds.frombytes(fd_bytes[:len(fd_bytes) // 4 * 4])
        if not data:
            assert want is None, f"connection closed instead of {want}"
            return None
        message = Message(HEADER.unpack(data[:HEADER.size]), data[HEADER.size:], list(fds))
        assert want is None or message.type == want, f"{message.type} instead of {want}"
        return message

    def send(self, name, *fields, job=0, cookie=0, fds=()):
        body = BODIES[name].pack(*fields)
        header = HEADER.pack(TYPES[name], HEADER.size + len(body), job, 0, cookie, 0)
        socket.send_fds(self.sock, [header + body], list(fds))

    def close(self):
        self.sock.close()


class FakeDaemon:
    def __init__(self, path):
        self.path = str(path)
        self.peers = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.listener.settimeout(20)

    def accept(self, welcome=True):
        """The next peer, after its HELLO; returns (peer, hello)."""
        peer = Peer(self.listener.accept()[0])
        self.peers.append(peer)
        hello = peer.recv("HELLO")
        if welcome:
            peer.send("WELCOME", 1, 0, job=hello.job)
        return peer, hello

    def close(self):
        for peer in self.peers:
            peer.close()
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
