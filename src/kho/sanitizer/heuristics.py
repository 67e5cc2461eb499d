"""Whether a value is a secret or only stands where one would: what the rules of secret_patterns ask."""

import base64
import binascii
import re

# Anywhere in a value, these make it a placeholder or a template; plain substrings because they are tested often.
STAND_IN_PARTS = (
    "your", "_here", "-here", "example", "changeme", "change_me", "change-me", "placeholder", "redacted", "replaceme",
    "replace_me", "replace-me", "insert", "dummy", "xxxx", "***", "...", "${", "{{", "}}", "$(", "%(",
)  # fmt: skip
STAND_IN_SHAPE = re.compile(
    r"<[^<>]{0,80}>|\{[\w. ]{0,40}\}|\A(?:\$[A-Za-z_]|%[A-Za-z_]{1,40}%\Z|\[[^\]]{0,60}\]\Z|!|(.)\1{3,200}\Z)"
)
# Values made of nothing but these words name a secret rather than being one.
NAMING_WORDS = frozenset(
    "a access admin api app auth bar bearer client code db default demo empty enter fake false foo guest host id is key"
    " login me my name new nil no none null old pass passphrase passwd password pwd root sample secret some string test"
    " the this token true type undefined user username value yes postgres mysql redis hidden masked required".split()
)
WORD = re.compile(r"[A-Z]?[a-z]{1,200}|[A-Z]{1,200}")
RUN = re.compile(r"[A-Z]?[a-z]{1,400}|[A-Z]{1,400}|[0-9]{1,400}")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
LETTER = re.compile("[A-Za-z]")
DIGIT = re.compile("[0-9]")
TOKEN_CHARACTERS = re.compile(r"[A-Za-z0-9+/=_.~:%-]{1,4000}")
HEX = re.compile(r"[0-9a-fA-F]{16,200}")
# Technical words with digits in them, common right after "password" or "token" in prose.
TECHNICAL = re.compile(
    r"base(?:16|32|58|64)(?:url)?|sha-?(?:1|2|3|224|256|384|512)|md[45]|utf-?(?:8|16)|argon2(?:id?|d)?|pbkdf2|oauth-?[12](?:\.[0-9])?|"
    r"aes-?(?:128|192|256)|hs(?:256|512)|[er]s256|ed25519|x509|http/?[12]|ipv[46]|ascii|v[0-9]{1,2}|py[23]|python[23](?:\.[0-9]{1,2})?",
    re.IGNORECASE,
)
PUBLIC_KEY = re.compile(r"AAAA[A-Z][23]Nza|MII[A-Z]|sha(?:1|256|384|512)[-:]")
HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]{1,100}:[0-9]{2,5}")


def is_template(value: str) -> bool:
    """Placeholders and variables."""
    lowered = value.lower()
    return any(part in lowered for part in STAND_IN_PARTS) or bool(STAND_IN_SHAPE.search(value))


def is_stand_in(value: str) -> bool:
    """Placeholders, variables and names of secrets."""
    if is_template(value):
        return True
    words = WORD.findall(value)
    return not DIGIT.search(value) and all(word.lower() in NAMING_WORDS for word in words)


def mean_run(value: str) -> float:
    """Mean length of same-class runs: about 2 for random characters, 4 and more for words, names and paths."""
    runs = RUN.findall(value)
    return sum(map(len, runs)) / len(runs) if runs else 99.0


def is_opaque(value: str, shortest: int = 16) -> bool:
    """Random-looking and long, as machines make them."""
    if len(value) < shortest or not TOKEN_CHARACTERS.fullmatch(value) or len(set(value)) < 8:
        return False
    if not LETTER.search(value):
        return False
    # Ten digits in sixteen make longer runs in hexadecimal; without any digit the value has to be longer instead.
    if mean_run(value) >= (5.0 if HEX.fullmatch(value) else 3.2):
        return False
    if not DIGIT.search(value) and (len(value) < 24 or mean_run(value) >= 3.0):
        return False
    return not (UUID.fullmatch(value) or PUBLIC_KEY.match(value) or is_stand_in(value))


SIGN_INSIDE = re.compile(r"[!@#$%^&*?+~]")
CLASSES = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[!@#$%^&*?+~=_./:-]")))


def classes(value: str) -> int:
    """How many of lower case, upper case, digit and sign occur."""
    return sum(1 for pattern in CLASSES if pattern.search(value))


def is_password(value: str) -> bool:
    """Something a person would type as a password: not a plain word, a sentence or a stand-in."""
    if not 6 <= len(value) <= 200 or not value.isascii() or "://" in value:
        return False
    bare = TECHNICAL.sub("", value)
    if not DIGIT.search(bare) and not (SIGN_INSIDE.search(bare) and classes(bare) >= 2):
        return False
    shaped = UUID.fullmatch(value) or PUBLIC_KEY.match(value) or HOST_AND_PORT.fullmatch(value)
    return not shaped and not is_stand_in(value)


def is_strong_password(value: str) -> bool:
    """For places where only the value itself can tell: "password Foo1!" without a sign in between."""
    return classes(value) >= 3 and bool(LETTER.search(value)) and is_password(value)


def decodes_to_pair(value: str) -> bool:
    """Base64 of `user:password`, as in Basic authentication and docker's config."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon) and decoded.isprintable() and bool(user or password) and not is_stand_in(password)
