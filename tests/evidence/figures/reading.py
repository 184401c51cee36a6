"""What a reader sees of a figure: the artists that look like an entry of a legend."""

import numpy as np
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from layernorm_roles.evidence.legends import label


def handles(figure) -> dict:
    """The entries of all legends of a figure by their texts, and what is named at the end of its line."""
    entries = ((legend.get_texts(), legend.legend_handles) for legend in figure.findobj(Legend))
    found = {text.get_text(): handle for pair in entries for text, handle in zip(*pair, strict=True)}
    for axes in figure.axes:
        for text in (text for text in axes.texts if text.get_text().endswith((" seed", " seeds"))):
            thick = [line for line in axes.lines if line.get_linewidth() > 1 and len(line.get_xdata()) > 1]
            found |= {text.get_text(): line for line in thick if line.get_color() == text.get_color()}
    return found


def name(variant: str) -> str:
    """How the legend's entry of a variant begins, before its number of seeds."""
    return f"{label(variant)}, "


def labels(figure) -> list[str]:
    return list(handles(figure))


def _look(line: Line2D) -> tuple:
    """What tells lines apart: colour, stroke, width, and the form, edge and filling of the marks."""
    stroke = str(line._unscaled_dash_pattern) if line.get_linestyle() != "None" else None
    width = (to_hex(line.get_color()), line.get_linewidth()) if stroke else None
    form = str(line.get_marker())
    filling = to_hex(line.get_markerfacecolor()) if line.get_markerfacecolor() != "none" else "none"
    marks = (form, to_hex(line.get_markeredgecolor()), filling) if form != "None" else None
    return stroke, width, marks


GREYS = {"#555555", "#000000"}
"""Colours of entries that stand for artists in all colours."""


def _alike(entry: tuple, drawn: tuple) -> bool:
    """Whether a line looks like an entry; one in grey or black tells the stroke or the form of the mark alone."""
    stroke, width, marks = entry
    if not GREYS & {width and width[0], marks and marks[1]}:
        return entry == drawn
    if stroke != drawn[0] or (width and width[1] != drawn[1][1]) or bool(marks) != bool(drawn[2]):
        return False
    hollow = [{"#ffffff": "white", "none": "none"}.get(look[2], "full") for look in (marks, drawn[2]) if look]
    return not marks or (marks[0] == drawn[2][0] and len(set(hollow)) == 1)


def like(axes, handle) -> list:
    """The artists of axes that look like an entry of a legend: lines, or areas and points of its colour."""
    found = [line for line in axes.lines if len(line.get_xdata()) and _alike(_look(handle), _look(line))]
    colour = to_hex(handle.get_color())
    for item in [*axes.collections, *axes.patches] if not found else []:
        tones = [*np.atleast_2d(item.get_facecolor()), *np.atleast_2d(item.get_edgecolor())]
        if isinstance(item, Collection | Patch) and colour in {to_hex(tone) for tone in tones if len(tone)}:
            found.append(item)
    return found


def named(axes, label: str) -> list:
    """The artists of axes that look like the legend's entry that begins with `label`, the shortest if several do."""
    entries = handles(axes.get_figure(root=True))
    return like(axes, entries[min((text for text in entries if text.startswith(label)), key=len)])


def curve(axes, label: str) -> Line2D:
    """The one line that looks like the entry that begins with `label`; marks of one point count where no line is."""
    lines = named(axes, label)
    (line,) = [line for line in lines if len(line.get_xdata()) > 1] or lines
    return line


def stroked(axes, color, ls="-", mfc=None, **_) -> Line2D:
    """The one line of more than one point that has the colour and the stroke of a look, and is as hollow."""
    look = (color, ls or "None", mfc == "white")

    def shown(line) -> tuple:
        return line.get_color(), line.get_linestyle(), line.get_markerfacecolor() == "white"

    (found,) = [line for line in axes.lines if len(line.get_xdata()) > 1 and shown(line) == look]
    return found


def bars(axes, colour) -> np.ndarray:
    """Lower and upper end of every vertical bar of a colour that the axes show."""
    lines = [c for c in axes.collections if [*map(to_hex, c.get_edgecolor()[:1])] == [to_hex(colour)]]
    ends = [segment[:, 1] for each in lines for segment in each.get_segments() if len(segment)]
    return np.array([pair for pair in ends if np.isfinite(pair).all()]).reshape(-1, 2)
