"""Parts of pages: complete in themselves, and nothing that is shown in them can become part of the markup."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from elldelta.pages.charts import draw_histogram
from elldelta.pages.page import fragment, percent, share_upper

BARS = [{"diversity": 2, "records": 10}, {"diversity": 5, "records": 7}]
FACTS = {
    "records": 12345,
    "share": 0.123456,
    "promised": None,
    "holds": True,
    "name": "<script>alert(1)</script>",
}


def test_a_fragment_shows_names_and_values_and_escapes_them():
    text = fragment("A <plan>", FACTS, columns=("class", "n"), rows=[("20-40", 1000), ("*", None)])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "A &lt;plan&gt;" in text
    for shown in ("12,345", "0.1235", "–", "yes", "20-40", "1,000"):
        assert shown in text
    ET.fromstring(text)  # noqa: S314 (ours)


def test_a_fragment_needs_nothing_from_outside_and_two_do_not_share_identifiers():
    texts = [
        fragment("A", {}, picture=draw_histogram(BARS[:n], 3), words="Bars of <values> left.") for n in (1, 2)
    ]
    for text in texts:
        assert "<table" not in text
        assert not re.search(r"""(?:src|href)\s*=\s*["'](?:https?:)?//|url\(\s*["']?https?:""", text)
        assert 'aria-label="Bars of &lt;values&gt; left."' in text
        ET.fromstring(text)  # noqa: S314 (ours)
    first, second = (set(re.findall(r'id="([^"]+)"', text)) for text in texts)
    assert first
    assert not first & second
    assert texts[0] == fragment("A", {}, picture=draw_histogram(BARS[:1], 3), words="Bars of <values> left.")


@given(st.floats(0.0, 1.0), st.integers(0, 3))
def test_a_share_is_rounded_up_and_100_percent_means_all(share, digits):
    rounded = share_upper(share, digits + 2)
    assert share - 1e-9 <= rounded <= 1.0
    assert (rounded == 1.0) == (share == 1.0)
    assert rounded - share < 10.0 ** -(digits + 2)
    assert (percent(share, digits) == "100 %") == (share == 1.0)


def test_shares_near_all_keep_the_digits_that_tell_them_apart():
    assert [percent(share, 0) for share in (0.0, 0.21, 0.2101, 0.992, 0.99999, 1.0, None)] == [
        "0 %", "21 %", "22 %", "99.2 %", "99.999 %", "100 %", "–",
    ]  # fmt: skip
    assert percent(1.0 - 1e-15) == "above 99.99999999 %"
