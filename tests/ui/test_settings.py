"""The server's settings are ones that Streamlit knows, and say what the page promises."""

import tomllib
from pathlib import Path

import pytest
from streamlit import config

ROOT = Path(__file__).resolve().parents[2]


def settings() -> dict[str, object]:
    """Every option of the file by its dotted name."""
    found: dict[str, object] = {}
    text = (ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8")

    def gather(prefix: str, table: dict[str, object]) -> None:
        for key, value in table.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict):
                gather(f"{name}.", value)
            else:
                found[name] = value

    gather("", tomllib.loads(text))
    return found


@pytest.mark.parametrize("name", settings())
def test_every_setting_is_known(name: str) -> None:
    assert name in config.get_config_options()


def test_nothing_is_told_and_nothing_is_reached_from_outside() -> None:
    wanted = {
        "server.address": "localhost",
        "server.allowedHosts": ["localhost", "127.0.0.1", "::1"], "browser.gatherUsageStats": False,
        "server.showEmailPrompt": False, "server.fileWatcherType": "none",
        "runner.postScriptGC": False, "client.toolbarMode": "viewer",
        "client.showErrorDetails": "none", "client.showErrorLinks": False,
    }  # fmt: skip
    assert wanted.items() <= settings().items()
