"""The documentation as a site, by `sphinx-build -W docs site`."""

import gape

project = "GAPE"
release = gape.__version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "GAPE"
myst_heading_anchors = 3
