"""The report of an audit in a real browser: at two widths, on paper, and without scripts."""

import re
import shutil
import subprocess

import pytest

from elldelta.audit.page import render_audit

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not there; get it with: apt-get install chromium"
)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def document(n_releases=3, *, public=False):
    """What an audit of releases with long names and labels found; numbers are invented."""
    names = [f"release_of_the_hospital_with_a_long_name_{number}.parquet" for number in range(n_releases)]
    label = ["560001-560002", "{divorced, married, never married, widowed}", "1990-01..1990-06"]
    return {
        "releases": [
            {
                "name": name, "records": 123456, "classes": 1234, "diversity": 3, "k": 3, "entropy": 2.22,
                "t_closeness": 0.92, "loss": 0.07, "classes_below": 12, "records_below": 345,
            }
            for name in names
        ],
        "range_of_loss": "over the range that was seen in the past",
        "columns": ["postal_code", "marital_status", "admitted"],
        "sensitive": "diagnosis_of_the_first_visit",
        "software": "elldelta 1.0",
        "plans": [f"sha256:{'0' * 64}"],
        "contents": [f"sha256:{'1' * 64}" for _ in names],
        "public": public,
        "ell": 5,
        "holds": False,
        "verdict": "Not safe: for at least one person only 1 value is left; 5 were promised.",
        "surest": "How sure somebody can be, and on what condition. " * 5,
        "closeness": {
            "allowed": 0.2, "reference": "the overall distribution of the releases", "distance": 0.71,
            "bound": 0.75, "holds": False, "classes": 1412, "classes_above": 1217, "note": "A note. " * 9,
            "worst": []
            if public
            else [
                {
                    "releases": names, "labels": [label] * n_releases, "records": 2, "distance": 0.71,
                    "bound": 0.75, "guess_before": 0.1, "guess_after": 0.9, "set_before": 0.2,
                    "set_after": 0.91, "values": ["a_disease_with_a_long_name", "another one", "3 more"],
                }
            ],
        },
        "diversity_min": 1,
        "diversity_min_any": 1,
        "classes_linked": 1412,
        "classes_without_common_value": 0,
        "classes_below_any": 1217,
        "share_below": 0.406,
        "share_exposed": 0.151,
        "histogram": [{"diversity": left, "classes": 533, "records": 573 // left} for left in range(1, 13)],
        "linked": {
            "records": 3794, "classes_below": 955, "records_below": 1542, "classes_exposed": 533,
            "records_exposed": 573, "entropy_min": 1.0, "log_entropy_min": 0.0, "recursive_c_max": None,
            "guess_mean": 0.498,
        },
        "baseline": 0.134,
        "reference": "the overall distribution of the releases",
        "readings": [
            {
                "name": name, "share_surest": 0.992, "share_before": 0.1, "share_after": 0.498,
                "is_exact": False, "condition": "a long condition " * 8,
            }
            for name in ("shares of linked records", "Bayes' rule")
        ],
        "curve": [
            {
                "releases": number + 1, "groups": 3, "groups_possible": 4, "diversity_min": 1,
                "share_below_max": number / 5, "share_below_mean": number / 6, "guess_mean_max": 0.5,
                "share_exposed_max": number / 9, "share_exposed_mean": number / 10,
            }
            for number in range(n_releases)
        ],
        "left_out": [
            {
                "without": name, "diversity_min": 1, "diversity_min_any": 1, "classes_below_any": 582,
                "share_below": 0.184, "share_exposed": 0.1,
            }
            for name in names
        ],
        "memberships": {"in_all": 1, "in_some_known": 1, "in_some_unknown": 4, "unknown": 20},
        "worst_classes": []
        if public
        else [
            {
                "releases": names, "labels": [label] * n_releases, "values_left": 1, "records": 2,
                "largest_share": 1.0,
            }
        ]
        * 20,
        "subtraction": {
            "status": "found", "because": "affirmed", "below": 5, "diversity_min": 1, "groups_below": 3,
            "records_below": 4, "words": "What subtraction isolates. " * 6,
            "pairs": [
                {
                    "releases": names[:2], "status": "found", "because": "affirmed", "groups_below": 3,
                    "records_below": 4, "diversity_min": 1,
                }
            ],
            "smallest": [
                {
                    "releases": names[:2], "how": "first minus second", "labels": [[label], [label] * 3],
                    "records": 1, "diversity": 1, "status": "found",
                }
            ],
        },
        "targets": {"targets": 9, "in_all": 8, "below": 3, "exposed": 1, "outside": 1, "partly_known": 2},
        "assumptions": ["What was assumed. " * 6] * 3,
        "labels": [{"column": "admitted", "label": "1990-01..1990-06", "meaning": "January to June"}],
        "next_steps": ["What to do next. " * 6] * 3,
    }  # fmt: skip


def run(tmp_path, page, *options):
    """Opens a page from disk, in a profile of its own; returns what Chromium prints."""
    return subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout


@pytest.fixture
def page(tmp_path):
    target = tmp_path / "audit.html"
    target.write_text(render_audit(document()), encoding="utf-8")
    return target


@pytest.mark.parametrize("width", [500, 1200])  # Chromium makes no window narrower than 500
def test_nothing_scrolls_sideways(tmp_path, page, width):
    # The page has no script: one is added to a copy, only to measure it.
    measured = tmp_path / "measured.html"
    script = (
        "<script>addEventListener('load', () => { const root = document.documentElement;"
        "root.dataset.measured = root.scrollWidth + ' ' + innerWidth + ' ' + root.scrollHeight; })</script>"
    )
    measured.write_text(page.read_text(encoding="utf-8").replace("</body>", script + "</body>"), "utf-8")
    shown = run(tmp_path, measured, f"--window-size={width},900", "--dump-dom")
    content, window, height = map(int, re.search(r'data-measured="(\d+) (\d+) (\d+)"', shown).groups())
    assert window == width
    assert content <= window
    assert height > 2000


def test_the_page_is_there_without_scripts(tmp_path, page):
    # A policy switches scripts off, in a copy; and a script that would empty the page proves it.
    picture, quiet = tmp_path / "page.png", tmp_path / "quiet.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="script-src \'none\'">'
    text = page.read_text(encoding="utf-8").replace("<head>", "<head>" + policy)
    quiet.write_text(text.replace("</body>", "<script>document.body.remove()</script></body>"), "utf-8")
    run(tmp_path, quiet, "--window-size=1000,3000", f"--screenshot={picture}")
    from matplotlib.image import imread

    pixels = imread(picture)[:, :, :3]
    assert pixels.shape[:2] == (3000, 1000)
    is_inked = (pixels < 0.5).any(axis=2)
    # text and pictures all the way down, not only at the top
    assert all(is_inked[top : top + 500].mean() > 0.005 for top in range(0, 3000, 500))


def test_the_page_prints_as_several_pages_with_its_text(tmp_path, page):
    paper = tmp_path / "page.pdf"
    run(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    n_pages = len(re.findall(rb"/Type\s*/Page\b", content))
    assert 4 <= n_pages <= 14
    if shutil.which("pdftotext"):
        told = subprocess.run(["pdftotext", str(paper), "-"], capture_output=True, text=True, check=True)
        for words in ("Not safe", "The worst classes", "What was assumed", "What to do next"):
            assert words in told.stdout
