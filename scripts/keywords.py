"""Writes testing/keywords.py: the keywords of the test kit, typed, from the declarations of settings and fault rules.

    .venv/bin/python scripts/keywords.py             print it
    .venv/bin/python scripts/keywords.py --write     write it

A test compares the two.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from purgatorio.broker.config.descriptions import settings_of_process
from purgatorio.broker.layers.faults.rule import Rule
from purgatorio.broker.layers.faults.tier_rule import CALLS, TierRule
from purgatorio.broker.layers.faults.toxic import Toxic
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.setting import ConfigType
from purgatorio.testing.options import OWN_NAMES

MODULE: Final = Path(__file__).resolve().parent.parent / "testing" / "keywords.py"
HEAD: Final = '''"""The keywords of the test kit, for type checkers and editors; scripts/keywords.py writes this file.

A cluster knows more names than a type can list: those of one listener (``listener_name_external_…``), and any name with
Kafka's dots. Give these as ``**more``, where `more` is a ``dict[str, Any]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict
'''
_VALUES: Final = {
    ConfigType.BOOLEAN: "bool | str",
    ConfigType.STRING: "str | Sequence[str]",
    ConfigType.INT: "int | str",
    ConfigType.SHORT: "int | str",
    ConfigType.LONG: "int | str",
    ConfigType.DOUBLE: "float | str",
    ConfigType.LIST: "str | Sequence[str]",
    ConfigType.PASSWORD: "str",
}
_CHOICES: Final = {
    "disconnect": 'Literal["before", "after"] | None',
    "drop": 'Literal["request", "answer"] | None',
    "stream": 'Literal["downstream", "upstream"]',
    "errors": "Sequence[str]",
}


def module() -> str:
    """Return the text of the module."""
    settings = {name: _value(field.type) for name, field in settings_of_process().items()}
    topic = {each.name: _value(each.type) for each in TOPIC_CONFIGS.values()}
    own = {name: value for name, value in settings.items() if name not in OWN_NAMES}
    toxic, tier = _fields(Toxic, without=("toxic",)), _fields(TierRule, without=("tier",))
    parts = [
        HEAD,
        _typed("BrokerSettings", "Broker settings by Kafka's names, with underscores for dots.", own),
        _typed("TopicConfigs", "Topic configs by Kafka's names, with underscores for dots.", topic),
        _typed(
            "FaultRule",
            "A fault rule; see `purgatorio.broker.layers.faults.rule.Rule`.",
            _fields(Rule) | tier | _kinds() | toxic,
        ),
        _typed("ToxicRule", "A toxic; see `purgatorio.broker.layers.faults.toxic.Toxic`.", toxic),
        _typed("TierRule", "A fault of the tier; see `purgatorio.broker.layers.faults.tier_rule.TierRule`.", tier),
    ]
    return "\n\n".join(parts)


def _kinds() -> dict[str, str]:
    return {"toxic": "str", "tier": f"Literal{list(CALLS)}".replace("'", '"')}


def _value(kind: ConfigType) -> str:
    return f"{_VALUES[kind]} | None"


def _fields(of: Any, without: Sequence[str] = ()) -> dict[str, str]:
    return {each.name: _CHOICES.get(each.name, str(each.type)) for each in fields(of) if each.name not in without}


def _typed(name: str, doc: str, keywords: dict[str, str]) -> str:
    return "\n".join([f"class {name}(TypedDict, total=False):", f'    """{doc}"""', "", *_lines(keywords.items()), ""])


def _lines(keywords: Iterable[tuple[str, str]]) -> list[str]:
    return [f"    {name}: {kind}" for name, kind in keywords if not keyword.iskeyword(name)]


def main(argv: Sequence[str]) -> int:
    """Print the module, or write it."""
    if argv == ["--write"]:
        MODULE.write_text(module(), encoding="utf-8")
    elif not argv:
        print(module(), end="")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
