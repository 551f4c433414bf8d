"""How Sphinx makes the site of these pages: `./scripts/docs` runs it, with warnings as errors and without a network."""

from __future__ import annotations

from importlib import metadata

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from purgatorio import BrokerConfig, ClusterConfig
from purgatorio.broker.config.declare import Settings
from purgatorio.broker.config.kafka_settings import by_reason
from purgatorio.broker.log.setting import Setting

project = "Purgatorio"
author = "the Purgatorio contributors"
copyright = author
version = release = metadata.version("purgatorio")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["substitution"]
myst_heading_anchors = 3
exclude_patterns = ["changes"]  # of the changelog, which a release makes a section of
lexers["mermaid"] = TextLexer()  # its text; drawing it would need a script from elsewhere

default_role = "py:obj"  # `name` in a docstring: a link where this site describes it, else code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
napoleon_numpy_docstring = False
napoleon_attr_annotations = False  # types would stand below each attribute, a line each
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"Purgatorio {release}"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False


def _default(field: Setting) -> str:
    if field.default is None:
        return "not set"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _settings_list(config: type[Settings]) -> str:
    """One line for each setting that has a plain value: its name, its default, its documentation."""
    return "\n".join(
        f"* **`{name.replace('_', '.')}`** ({_default(field)}): {field.doc}"
        for name, field in config.model_fields.items()
    )


def _unread_list() -> str:
    """One line for each reason, with the settings that have no effect for it."""
    reasons = by_reason(BrokerConfig.model_fields)
    return "\n".join(
        f"* {why[0].upper()}{why[1:]} {', '.join(f'`{each.dotted}`' for each in settings)}"
        for why, settings in sorted(reasons.items())
    )


myst_substitutions = {
    "cluster_settings": _settings_list(ClusterConfig),
    "broker_settings": _settings_list(BrokerConfig),
    "settings_without_effect": _unread_list(),
}
