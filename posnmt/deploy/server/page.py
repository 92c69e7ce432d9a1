"""The page at the server's root, which shows translations of a text by up to three models side by side."""

from __future__ import annotations

from importlib.resources import files

from markupsafe import Markup

from posnmt.evaluation.report.embed import content_security_policy
from posnmt.evaluation.report.page import LIGHT, templates


def page() -> str:
    """The page as HTML, in the style of the reports. It sends requests to its own server only."""
    folder = files("posnmt.deploy.server") / "templates"
    own = {name: (folder / f"page.{name}").read_text(encoding="utf-8").strip() for name in ("html", "css", "js")}
    shared = templates()
    styles = [shared.get_template(name).render(colours=LIGHT) for name in ("style.css", "interactive.css")]
    return shared.from_string(own["html"]).render(
        style=Markup("\n".join([*styles, own["css"]])),  # noqa: S704  the package's own
        script=Markup(own["js"]),  # noqa: S704
        policy=f"{content_security_policy(own['js'])}; connect-src 'self'",
    )
