"""Sphinx configuration; `sphinx-build -W docs site` builds the site."""

import re
from typing import Any

import gape

project = "GAPE"
author = "the GAPE authors"
release = gape.__version__
html_title = "GAPE"
extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

smartquotes = False  # they would turn the hyphens of a flag into a dash
highlight_language = "none"  # a block without a language is a command or its output
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

# Docstrings write code in single backticks, as Markdown does.
default_role = "literal"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True


def _escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Keep |x| in a docstring as it is: to docutils it would be a substitution."""
    lines[:] = [re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or r"\|", line) for line in lines]


def setup(app: Any) -> None:
    """Register the hook."""
    app.connect("autodoc-process-docstring", _escape_bars)
