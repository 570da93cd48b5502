"""The page: complete in itself, safe, and with every drawing it promises."""

import json
import re
from html.parser import HTMLParser

import plotly.graph_objects as go
import pytest
from interference_factory import analyse, write_interference_run
from run_factory import make_timeline, write_run

from phasemeter.analysis.finding import Finding, Verdict
from phasemeter.core.timeline import Outcome
from phasemeter.report.document import read_report
from phasemeter.report.page import render_page


class PageParser(HTMLParser):
    """Collects elements, their attributes, the figures and the visible text."""

    def __init__(self):
        super().__init__()
        self.elements = []
        self.figures = {}
        self.text = []
        self.styles = []
        self._inside = None

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self._inside = attributes.get("data-for") or tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "style":
            self.styles.append(data)
        elif self._inside != "script":
            known = {attributes.get("id") for _, attributes in self.elements}
            if self._inside in known and self._inside is not None:
                self.figures[self._inside] = json.loads(data)
            else:
                self.text.append(data)


def parse(html):
    parser = PageParser()
    parser.feed(html)
    return parser


def page_of(path, **options):
    report = read_report(path, **options)
    return render_page(report.run, report.summary, report.finding, samples=report.samples)


@pytest.fixture(scope="module")
def interference_page(tmp_path_factory):
    path = write_interference_run(tmp_path_factory.mktemp("run"))
    return page_of(path, analyse=analyse)


@pytest.fixture(scope="module")
def load_page(tmp_path_factory):
    timelines = [
        make_timeline(
            f"r{i}",
            start_ms=20 * i,
            first_ms=20 * i + 50,
            gaps_ms=(20,) * 10,
            tags={"class": "long" if i % 3 == 0 else "short"},
            outcome=Outcome.TRUNCATED if i == 5 else Outcome.OK,
        )
        for i in range(12)
    ]
    return page_of(write_run(tmp_path_factory.mktemp("run"), timelines))


@pytest.mark.parametrize("which", ["load_page", "interference_page"])
def test_nothing_is_loaded_from_anywhere(which, request):
    """No element, style or policy lets the page fetch a script, style, image, font or frame."""
    page = parse(request.getfixturevalue(which))

    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "audio", "video")
        assert not {"src", "href", "srcset", "action", "poster", "data"} & attributes.keys()
    assert not re.search(r"url\(|@import|@font-face", "".join(page.styles))
    policies = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert len(policies) == 1
    assert "default-src 'none'" in policies[0]
    assert "http" not in policies[0]


@pytest.mark.parametrize("which", ["load_page", "interference_page"])
def test_every_figure_is_one_that_plotly_accepts_with_titled_axes(which, request):
    """Property names are checked by plotly's own schema; both axes have a title or named rows."""
    figures = parse(request.getfixturevalue(which)).figures

    assert len(figures) >= 4
    for figure in figures.values():
        go.Figure(figure)
        assert figure["data"]
        assert figure["layout"]["xaxis"]["title"]["text"]


def test_the_plotting_library_is_inlined_once(load_page):
    """The page works offline and is not larger than it must be."""
    assert load_page.count("plotly.js v") == 1
    assert len(load_page) < 6_000_000


def test_a_load_page_shows_its_drawings_and_tables(load_page):
    """Raster, gap percentiles, TTFT distribution, token rate; the truncated one is not hidden."""
    page = parse(load_page)

    assert set(page.figures) == {"raster", "gaps", "ttft", "rate"}
    assert any(trace["name"] == "ended not ok" for trace in page.figures["raster"]["data"])
    text = " ".join(page.text)
    for expected in ("Validity: suspect.", "Token raster", "truncated", "ttft_wire", "Definitions"):
        assert expected in text


def test_an_interference_page_shows_the_pause_of_the_others(interference_page):
    """The raster of each topology shades every injected prompt of its first repeat."""
    page = parse(interference_page)

    assert {"raster1", "raster2", "gaps", "exposures", "ttft", "throughput"} == set(page.figures)
    shades = [s for s in page.figures["raster1"]["layout"]["shapes"] if s["type"] == "rect"]
    assert len(shades) == 4
    names = [trace["name"] for trace in page.figures["gaps"]["data"]]
    assert [name.split(" (")[0] for name in names] == [
        "mixed, baseline",
        "mixed, inject",
        "separated, baseline",
        "separated, inject",
    ]
    assert (
        sum(len(t["x"]) for t in page.figures["exposures"]["data"] if t["mode"] == "markers") == 16
    )


def test_factors_have_bars_and_unknown_ones_a_dash(interference_page):
    """Six known factors, one unknown."""
    page = parse(interference_page)

    assert sum(tag == "svg" for tag, _ in page.elements) == 6
    row = interference_page.split("mixed.together.short.ttft_p999")[1].split("</tr>")[0]
    assert row.count("\N{EN DASH}") == 2


def test_markup_in_names_is_text(tmp_path):
    """A class name or a reason from a file cannot become part of the page."""
    evil = "</script><img src=x onerror=alert(1)>"
    timelines = [make_timeline("a", first_ms=5, gaps_ms=(3, 4), tags={"class": evil})]
    error = make_timeline("b", outcome=Outcome.ERROR, error_type=evil)

    html = page_of(write_run(tmp_path, [*timelines, error]))

    assert evil not in html
    assert not any(tag == "img" for tag, _ in parse(html).elements)


def test_a_run_without_responses_says_so_instead_of_drawing(tmp_path):
    """Four places, no figure, the verdict first."""
    html = page_of(write_run(tmp_path, [], still_running=[make_timeline("a")]))

    page = parse(html)
    assert page.figures == {}
    assert html.count("Nothing to draw") == 4
    assert "Validity: invalid." in " ".join(page.text)


def test_an_interference_run_without_anything_still_has_a_page(tmp_path):
    """Killed before the first phase: the verdict says that nothing can be said."""
    path = write_run(tmp_path, [], kind="interference")
    nothing = Finding(Verdict("invalid", "The run ended before its first phase."))

    page = parse(page_of(path, analyse=lambda run: nothing))

    assert page.figures == {}
    assert "Nothing can be said" in " ".join(page.text)


def test_a_run_without_injection_has_no_drawings_of_one(tmp_path):
    path = write_interference_run(tmp_path, conditions=("mix",))

    page = parse(page_of(path, analyse=analyse))

    assert set(page.figures) == {"ttft", "throughput"}
