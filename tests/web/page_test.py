#!/usr/bin/env python3
"""The page in headless Chromium: tests/web/checks.mjs."""
import sys

import with_browser

if __name__ == "__main__":
    sys.exit(with_browser.run("checks.mjs"))
