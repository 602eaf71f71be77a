"""The colours of the pages: text can be read on whatever it stands on, in the light and in the dark."""

import re
from pathlib import Path

import pytest

import elldelta.agency.server

STYLE = (Path(elldelta.agency.server.__file__).parent / "static" / "style.css").read_text()

TEXT = [
    (text, ground)
    for text in ("ink", "soft", "good", "bad")
    for ground in ("paper", "wash", "good-wash", "bad-wash")
] + [("on-good", "good"), ("on-bad", "bad")]


def themes():
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_the_guideline_says():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT)
def test_text_has_enough_contrast(theme, text, ground):
    colours = themes()[theme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_edges_of_fields_can_be_seen(theme):
    colours = themes()[theme]
    assert contrast(colours["edge"], colours["paper"]) >= 3.0


def test_no_text_has_a_colour_of_its_own():
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", rules)) <= {"#fff"}  # the paper of pictures
