"""Pictures of a run: text, a page, a sequence diagram, and a trace for Perfetto."""

from streamproof.scenarios.pictures.html_timeline import render_html
from streamproof.scenarios.pictures.lanes import Picture, picture
from streamproof.scenarios.pictures.mermaid import render_mermaid
from streamproof.scenarios.pictures.perfetto import render_perfetto
from streamproof.scenarios.pictures.text_lanes import render_text

__all__ = [
    "Picture",
    "picture",
    "render_html",
    "render_mermaid",
    "render_perfetto",
    "render_text",
]
