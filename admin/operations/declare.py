"""How an operation on a cluster is declared.

An operation is a class. Its attributes are what is given to it, wherever it comes from; its docstring says what it
does, in the list of the HTTP API and in the command's help; `run` does it::

    class Kill(Operation, http="POST /brokers/{id}/kill", command="broker kill", says="broker {id} was killed"):
        \"\"\"End a broker without unregistering it.\"\"\"

        id: int = arg("the broker's id")

        async def run(self, operator: Operator) -> Answer:
            ...

Attributes that the path names are in the path; the others are in the query of a GET, and else in the body.
"""

from __future__ import annotations

import base64
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote, urlencode

from purgatorio.late import dataclass

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_BODY_BYTES: Final = 64 * 1024
"""The longest body of a request for an operation that does not say otherwise."""

AnsweredBy = Literal["any broker", "its broker", "all brokers", "who knows", "supervisor", "nobody"]
"""The process that answers where each broker is one: any of them, for what the metadata has; the one of the path; all,
whose answers are merged; the one that coordinates the group or the id; the supervisor of the processes; or none, since
that needs all brokers in one process."""
Answer = dict[str, Any]
"""The answer of an operation, as JSON."""
R = TypeVar("R")


class Limits(NamedTuple):
    """The limits of a value; `base64` says that bytes are given as such text."""

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    finite: bool = False
    base64: bool = False


class Readable(Protocol[R]):
    """An operation whose answer has things that JSON has in another form: in the process they are read as they are."""

    async def read(self, operator: Operator) -> Iterable[R]:
        """Do it, and return them."""

    def parsed(self, answer: Answer) -> list[R]:
        """Return those that an answer lists."""


Int32 = Annotated[int, Limits(ge=0, le=MAX_INT32)]
Int64 = Annotated[int, Limits(ge=0, le=MAX_INT64)]
TopicName = Annotated[str, Limits(min_length=1, max_length=249)]
Base64 = Annotated[bytes, Limits(base64=True)]


class Help(NamedTuple):
    """The description of an attribute of an operation.

    Attributes:
        words: what it is.
        metavar: how the command's help names its value; None: as the attribute is named, in capitals.
        positional: whether the command takes it without a ``--name``; None: if it is in the path.
        whole: returns the names with their words, if it is the whole body.
    """

    words: str
    metavar: str | None = None
    positional: bool | None = None
    whole: Callable[[], Mapping[str, str]] | None = None


def arg(words: str, *, default: Any = MISSING, **options: Any) -> Any:
    """Declare an attribute of an operation, by the names of `Help`."""
    return field(default=default, metadata={"help": Help(words, **options)})


class Argument(NamedTuple):
    """An attribute of an operation.

    Attributes:
        place: where HTTP has it.
        hint: its type, with `Limits`.
        default: its value if it is not given; MISSING if it must be.
    """

    name: str
    place: Literal["path", "query", "body"]
    hint: Any
    default: Any
    help: Help

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def kind(self) -> Any:
        """Its type without None and limits: str, int, float, bool, or a generic one."""
        return bare(self.hint)


def limits_of(hint: Any) -> Limits:
    """Return the limits of a type, which None may be beside."""
    if get_origin(hint) is Annotated:
        return next(each for each in get_args(hint)[1:] if isinstance(each, Limits))
    return next((limits_of(each) for each in get_args(hint) if get_origin(each) is Annotated), Limits())


def bare(hint: Any) -> Any:
    """Return a type without None and limits."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        (left,) = [each for each in get_args(hint) if each is not type(None)]
        return bare(left)
    return hint


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [each.as_document() if hasattr(each, "as_document") else each for each in value]
    return value


@dataclass_transform(field_specifiers=(arg,))
class Operation:
    """An operation on a cluster.

    Attributes:
        method, path: where HTTP has it, below ``/api/v1``. A name with ``:path`` may have slashes.
        command: the words of the command that does it; "" if there is none, or one with words of its own.
        says: what the command prints, with the names of attributes and of the answer in braces (see `says` of
            the commands); "": the answer.
        patience_seconds: the longest wait of a command for the answer.
        answered_by: who answers in a cluster of several processes.
        max_body_bytes: the longest body of a request for it.
        shared_ms: pages that ask for it often share an answer that is made at most so often; 0: each gets its own.
        made_of: the operation whose answer is all that it needs, merged where there are several processes; or None.
    """

    method: ClassVar[str]
    path: ClassVar[str]
    command: ClassVar[str]
    says: ClassVar[str]
    patience_seconds: ClassVar[float]
    answered_by: ClassVar[AnsweredBy]
    max_body_bytes: ClassVar[int]
    shared_ms: ClassVar[int]
    made_of: ClassVar[type[Operation] | None]
    _chosen: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init_subclass__(
        cls,
        *,
        http: str,
        command: str = "",
        says: str = "",
        patience_seconds: float = 15.0,
        answered_by: AnsweredBy = "any broker",
        max_body_bytes: int = MAX_BODY_BYTES,
        shared_ms: int = 0,
        made_of: type[Operation] | None = None,
    ) -> None:
        cls.method, _, cls.path = http.partition(" ")
        cls.command, cls.says, cls.patience_seconds, cls.answered_by = command, says, patience_seconds, answered_by
        cls.max_body_bytes, cls.shared_ms = max_body_bytes, shared_ms
        cls.made_of = made_of
        if made_of is not None:
            cls.answered_by = made_of.answered_by
        dataclass(repr=False, eq=False, match_args=False)(cls)

    def __post_init__(self) -> None:
        for name, allowed in self._choices().items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ValueError(f"{name} is {value!r}; it can be {' or '.join(allowed)}")
        self.check()

    @classmethod
    def _choices(cls) -> Mapping[str, tuple[str, ...]]:
        """Return the values of each attribute that is one of some words."""
        if "_chosen" not in cls.__dict__:
            kinds = {each.name: each.kind for each in cls.arguments()}
            cls._chosen = {name: get_args(kind) for name, kind in kinds.items() if get_origin(kind) is Literal}
        return cls._chosen

    def check(self) -> None:
        """Check attributes together; raise a ValueError with a sentence about what is wrong."""

    async def run(self, operator: Operator) -> Answer:
        """Do it, and return the answer.

        Raises:
            OperationRefused: why it is not done.
        """
        raise NotImplementedError

    def made(self, answer: Answer) -> Answer:
        """Return the answer, made of that of the operation `made_of`.

        Raises:
            OperationRefused: why it cannot be.
        """
        raise NotImplementedError

    @classmethod
    def does(cls) -> str:
        """The effect, as the end of a sentence."""
        words = " ".join((cls.__doc__ or "").split()).removesuffix(".")
        return words[:1].lower() + words[1:]

    @classmethod
    def needs(cls) -> Literal["read", "admin"]:
        """Which token it needs, if the admin HTTP has tokens."""
        return "read" if cls.method == "GET" else "admin"

    @classmethod
    def public_path(cls) -> str:
        """Its path as users see it."""
        return "/api/v1" + cls.path.replace(":path}", "}")

    @classmethod
    def arguments(cls) -> Iterator[Argument]:
        """Yield the attributes in the order of their declaration."""
        # By the namespaces of the code: a test runner may have dropped the module from sys.modules meanwhile.
        runs = [each.__dict__["run"] for each in reversed(cls.__mro__) if "run" in each.__dict__]
        namespace = {name: value for run in runs for name, value in run.__globals__.items()}
        hints = get_type_hints(cls, namespace, include_extras=True)
        own_path = cls.public_path()
        for each in fields(cls):  # type: ignore[arg-type]  # each subclass is made a dataclass
            place: Literal["path", "query", "body"] = "query" if cls.method == "GET" else "body"
            if f"{{{each.name}}}" in own_path:
                place = "path"
            yield Argument(each.name, place, hints[each.name], each.default, each.metadata["help"])

    def given(self) -> dict[str, Any]:
        """Return the values of its attributes as JSON has them, by name, without those that are as by default."""
        values = ((each, getattr(self, each.name)) for each in self.arguments())
        return {each.name: _as_json(value) for each, value in values if value != each.default}

    @classmethod
    def request(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the request for it: path and query behind ``/api/v1/``, and the body.

        Args:
            given: the values of its attributes, by name; in a body that may have any names, all else is of the body, or
                it is given whole.
        """
        path, left = cls.public_path().removeprefix("/api/v1/"), dict(given)
        for argument in cls.arguments():
            if argument.place == "path":
                path = path.replace(f"{{{argument.name}}}", quote(str(left.pop(argument.name)), safe=""))
            elif argument.help.whole is not None and isinstance(whole := left.get(argument.name), dict):
                left = whole
        if cls.method == "GET":
            return f"{path}?{urlencode(left)}" if left else path, {}
        return path, left
