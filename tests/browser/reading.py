"""Can everybody read a page? Each function returns what is wrong, one line per thing, and nothing if all is well."""

from pathlib import Path
from typing import Any

SCRIPT = (Path(__file__).parent / "reading.js").read_text("utf-8")
CONTROLS = {
    "button",
    "link",
    "textbox",
    "searchbox",
    "spinbutton",
    "slider",
    "checkbox",
    "radio",
    "combobox",
    "listbox",
}
CONTROLS |= {"switch", "tab", "menuitem", "option", "DisclosureTriangle"}
PHONE = 390  # pixels
PAPER = 718  # between the margins of A4


def faults(page: Any) -> list[str]:
    """Everything below at once."""
    return [*faint_text(page), *unnamed_pictures(page), *unnamed_controls(page), *unreachable(page), *too_wide(page)]


def faint_text(page: Any, least: float = 4.5) -> list[str]:
    """Visible text whose contrast with what is behind it is below `least`."""
    return _ask(page, "faintText", least)


def unnamed_pictures(page: Any) -> list[str]:
    """Pictures without words: img, svg and canvas need alt, aria-label or title, or aria-hidden for mere decoration."""
    return _ask(page, "unnamedPictures")


def unnamed_controls(page: Any) -> list[str]:
    """Controls that the browser can announce by no name."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    roles = [_value(node, "role") for node in nodes if not node["ignored"] and not _value(node, "name").strip()]
    return [f"a {role} has no name" for role in roles if role in CONTROLS]


def unreachable(page: Any) -> list[str]:
    """Controls that the Tab key never comes to."""
    count = _ask(page, "watchControls")
    for _ in range(count + 20):  # some more, for what can be scrolled
        page.keyboard.press("Tab")
        if not _ask(page, "noteFocus"):
            break
    return _ask(page, "notReached")


def too_wide(page: Any, width: int = PHONE) -> list[str]:
    """What makes the page wider than a phone, so that it must be scrolled sideways."""
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 800})
    found = _ask(page, "tooWide")
    page.set_viewport_size(before)
    return list(found)


def cut_off(page: Any, width: int = PAPER) -> list[str]:
    """What is wider than the element it stands in, so that paper as wide as this loses some of it."""
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 1000})
    found = _ask(page, "cutOff")
    page.set_viewport_size(before)
    return list(found)


def _ask(page: Any, name: str, argument: Any = None) -> Any:
    return page.evaluate(f"argument => {{ {SCRIPT}\n return {name}(argument) }}", argument)


def _value(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", ""))
