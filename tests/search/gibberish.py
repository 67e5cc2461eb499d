"""Words of no language, generated."""

import random


def gibberish(seed: int) -> list[str]:
    """A dozen of each: in Latin letters, in Vietnamese syllables that there are not, in Han characters at random."""
    chance = random.Random(seed)
    consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiou"

    def latin() -> str:
        return "".join(
            chance.choice(consonants if chance.random() < 0.7 else vowels) for _ in range(chance.randint(4, 9))
        )

    def syllable() -> str:
        marked = "ắằẵặấầẫậếềễệốồỗộớờỡợứừữự"
        return (
            chance.choice(["ngh", "kh", "x", "gi", "qu", "tr"])
            + chance.choice(marked)
            + chance.choice(["ch", "nh", "p", "t"])
        )

    def han() -> str:
        return "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(chance.randint(3, 6)))

    return [" ".join(make() for _ in range(chance.randint(1, 4))) for make in (latin, syllable, han) for _ in range(12)]
