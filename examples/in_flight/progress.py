"""Which offset to commit while several orders of a partition are in work: once a wrong one, and once the right one."""


class HighestDone:
    """Commits past orders that are still in work: they are lost when the partition moves to another consumer."""

    def __init__(self, position: int) -> None:
        self.position = position

    def begin(self, offset: int) -> None:
        """An order is in work."""

    def done(self, offset: int) -> None:
        """An order is billed."""
        self.position = max(self.position, offset + 1)


class ContiguousPrefix:
    """Commits what is done without a gap before it; what comes after a gap may be billed again after a crash."""

    def __init__(self, position: int) -> None:
        self._next = position
        self._in_work: set[int] = set()

    @property
    def position(self) -> int:
        """The offset of the first order that is not done."""
        return min(self._in_work, default=self._next)

    def begin(self, offset: int) -> None:
        """An order is in work."""
        self._in_work.add(offset)
        self._next = offset + 1

    def done(self, offset: int) -> None:
        """An order is billed."""
        self._in_work.remove(offset)
