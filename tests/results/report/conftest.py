"""Fixtures of all tests that open pages in a browser."""

from tests.results.report.browser import browser, open_page

__all__ = ["browser", "open_page"]
