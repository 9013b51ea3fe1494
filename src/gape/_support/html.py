"""Small pieces of HTML for notebooks. Every text is escaped."""

from collections.abc import Sequence

from markupsafe import Markup, escape

_CELL = Markup('<td style="text-align:left;vertical-align:top">{}</td>')
_HEAD = Markup('<th style="text-align:left">{}</th>')


def as_paragraph(text: str, *, alarming: bool = False) -> Markup:
    """Return a text as a paragraph; an alarming one in white on red."""
    style = Markup(' style="background:#b00020;color:white;padding:0.3em"') if alarming else Markup("")
    return Markup("<p{}>{}</p>").format(style, text)


def as_table(head: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> Markup:
    """Return a table with a caption above it."""
    title = Markup('<caption style="text-align:left;font-weight:bold">{}</caption>').format(caption) if caption else ""
    top = Markup("<tr>{}</tr>").format(_joined(_HEAD, head)) if any(head) else ""
    body = Markup("").join(Markup("<tr>{}</tr>").format(_joined(_CELL, row)) for row in rows)
    return Markup("<table>{}{}{}</table>").format(title, top, body)


def _joined(cell: Markup, values: Sequence[object]) -> Markup:
    return Markup("").join(cell.format(escape(str(value))) for value in values)
