"""Three hosts and etcd in network namespaces of this machine, whose links and processes fail on request.

A host loses what it sends to another one when it is told a wrong hardware address for it: frames go to nobody, as over
a cut line, and in one direction. `tc … netem`, which delays as well, is not on every kernel.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ETCD: Final = "etcd"
NOBODY: Final = "02:00:00:00:00:99"
"""A hardware address that no interface has."""
START_LIMIT_SECONDS: Final = 30


def why_not() -> str:
    """Return why this machine cannot have such hosts; nothing if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if shutil.which("etcd") is None:
        return "there is no etcd on this machine"
    if shutil.which("ip") is None:
        return "there is no `ip` command on this machine"
    name = f"pg{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return "" if made.returncode == 0 else "network namespaces cannot be made here"


def ip(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """The hosts 1, 2, 3 with a broker each, and one with etcd.

    Args:
        path: where their logs, etcd's data and the secret are.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tag = secrets.token_hex(2)
        self._net = f"10.{78 + secrets.randbelow(100)}.{secrets.randbelow(250)}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cut: set[tuple[str, str]] = set()
        self._numbers = itertools.count(1)
        self.names = ("1", "2", "3")
        (path / "secret").write_text(secrets.token_hex(32))

    # --- the network ---

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"{self._net}.{ {ETCD: 9, '1': 11, '2': 12, '3': 13}[name] }"

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers, for a client on this machine."""
        return ",".join(f"{self.address(name)}:9092" for name in self.names)

    def _space(self, name: str) -> str:
        return f"pg{self._tag}-{name}"

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Have the hosts, without processes, on a bridge of which this machine is a part."""
        bridge = f"pg{self._tag}"
        with contextlib.ExitStack() as undo:
            ip("link", "add", bridge, "type", "bridge")
            undo.callback(ip, "link", "del", bridge)
            ip("addr", "add", f"{self._net}.1/24", "dev", bridge)
            ip("link", "set", bridge, "up")
            for name in (ETCD, *self.names):
                space, link = self._space(name), f"pg{self._tag}{name[0]}"
                ip("netns", "add", space)
                undo.callback(ip, "netns", "del", space)
                ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
                ip("link", "set", link, "master", bridge, "up")
                ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
                ip("-n", space, "link", "set", "eth0", "up")
                ip("-n", space, "link", "set", "lo", "up")
            try:
                yield
            finally:
                for name in list(self._processes):
                    self.kill(name)

    def cut(self, source: str, target: str) -> None:
        """Lose what one host sends to another."""
        self._cut.add((source, target))
        address = self.address(target)
        ip("-n", self._space(source), "neigh", "replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def heal(self) -> None:
        """Lose nothing any more."""
        for source, target in self._cut:
            ip("-n", self._space(source), "neigh", "del", self.address(target), "dev", "eth0")
        self._cut.clear()

    # --- the processes ---

    def start_etcd(self, *flags: str) -> None:
        """Start etcd, with the data that it had."""
        address = self.address(ETCD)
        client, peer = f"http://{address}:2379", f"http://{address}:2380"
        listen = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        listen += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self._run(ETCD, ["etcd", "--data-dir", str(self._path / "etcd"), *listen, *flags])

    def start(self, name: str) -> None:
        """Start the broker of a host; it may take a while to be there."""
        store = f"etcd://{self.address(ETCD)}"
        settings = ["store=" + store, f"cluster.secret.file={self._path / 'secret'}", "min.insync.replicas=2"]
        command = [sys.executable, "-m", "purgatorio", "serve", "--broker-id", name, "--host", self.address(name)]
        self._run(name, [*command, *itertools.chain.from_iterable(("--set", each) for each in settings)])

    def _run(self, name: str, command: list[str]) -> None:
        with self.log(name).open("ab") as log:
            space = ["ip", "netns", "exec", self._space(name)]
            self._processes[name] = subprocess.Popen(
                [*space, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def log(self, name: str) -> Path:
        """Return where a host's process writes what it says."""
        return self._path / f"{name}.log"

    def kill(self, name: str) -> None:
        """End a host's process with SIGKILL."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def stand_still(self, name: str, seconds: float) -> None:
        """Stop a host's process for a while (SIGSTOP)."""
        self._processes[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._processes[name].send_signal(signal.SIGCONT)

    def ended(self) -> list[str]:
        """Return the hosts whose process has ended by itself."""
        return [name for name, process in self._processes.items() if process.poll() is not None]
