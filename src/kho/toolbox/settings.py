"""Settings of the server-side tools."""

from typing import Literal

from pydantic import Field

from kho.kernel.section import Section


class ToolboxSettings(Section):
    search_timeout: float = Field(default=15.0, gt=0, le=120)
    """Seconds for a whole web search, including the retry."""
    search_region: str = "wt-wt"
    """e.g. 'vn-vi', 'cn-zh', 'us-en'; 'wt-wt' is worldwide."""
    search_safe: Literal["on", "moderate", "off"] = "moderate"
    search_proxy: str = ""
    """e.g. 'http://proxy.example.org:3128'"""
    fetch_timeout: float = Field(default=20.0, gt=0, le=120)
    fetch_max_bytes: int = Field(default=5 * 1024 * 1024, ge=1024)
