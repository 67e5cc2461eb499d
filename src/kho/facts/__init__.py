"""Facts: short things worth knowing later, such as a preference, a decision, or who someone is."""

from kho.kernel.toolset import Instructions
from kho.kernel.vocabulary import Kind

KIND = Kind("fact", "fact", "fetch")
INSTRUCTIONS = Instructions(
    "Call remember for preferences, decisions and facts that last; with replaces when one changes. Call forget when "
    "one is wrong or no longer wanted.",
    "minimal",
)
"""What a model should know before it chooses among its tools. It is here because clients wait for it."""
