"""The purgatory without Kafka: settings that services watch by long polls, as etcd and Consul offer it.

A watcher names the version that it has seen, and is answered by the next one, or told after a time that nothing has
changed. It needs nothing but purgatorio. Run it: ``python examples/watch_settings.py``
"""

import asyncio

from purgatorio.purgatory import Purgatory, PurgatoryGroup


class Settings:
    """Named values with a version each; `changes` is where watchers wait."""

    def __init__(self, changes: Purgatory) -> None:
        self._changes = changes
        self._values: dict[str, tuple[int, str]] = {}

    def set(self, name: str, value: str) -> None:
        """Change a value, and wake the watchers of this name, however many wait for other names."""
        version, _ = self.get(name)
        self._values[name] = (version + 1, value)
        self._changes.check_and_complete(name)

    def get(self, name: str) -> tuple[int, str]:
        """The version and the value; version 0 if it was never set."""
        return self._values.get(name, (0, ""))

    async def watch(self, name: str, seen_version: int, wait_ms: int) -> tuple[int, str] | None:
        """A version that is newer than `seen_version`, or None if none comes within `wait_ms`."""
        try:
            await self._changes.wait(name, timeout_ms=wait_ms, until=lambda: self.get(name)[0] > seen_version)
        except TimeoutError:
            return None
        return self.get(name)


async def service(settings: Settings, name: str) -> None:
    """Follow one setting until it does not change for a second."""
    version = 0
    while (change := await settings.watch(name, version, wait_ms=1000)) is not None:
        version, value = change
        print(f"{name} is {value} (version {version})")
    print(f"{name} does not change any more")


async def main() -> None:
    """Two services watch two settings while these change."""
    async with PurgatoryGroup() as group:
        settings = Settings(group.purgatory("changes"))
        async with asyncio.TaskGroup() as services:
            services.create_task(service(settings, "color"))
            services.create_task(service(settings, "size"))
            for name, value in (("color", "red"), ("size", "small"), ("color", "blue")):
                await asyncio.sleep(0.02)
                settings.set(name, value)


if __name__ == "__main__":
    asyncio.run(main())
