"""Headless Chromium, where there is one."""

import shutil
import subprocess

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
WHY = "no Chromium here: apt-get install chromium"


def dom_of(url, folder, *flags):
    """The DOM of a page after it was loaded, and what its scripts, not Chromium's, said on the console. `folder` is Chromium's own."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder}", "--window-size=1280,900", *flags, url]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if outcome.returncode != 0:
        raise AssertionError(outcome.stderr)
    return outcome.stdout, [line for line in outcome.stderr.splitlines() if ":CONSOLE" in line and "source: chrome:" not in line]
