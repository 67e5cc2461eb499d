"""Rules for secrets that are known by what stands around them: the rule tables and the tests that they
use. Those with a format of their own are in token_rules.py.

Every rule is found by cheap literal substrings (`anchors`) first; its pattern only runs where one occurs. All repeats
are bounded, so the work per anchor is bounded too and hostile text costs linear time.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern as regex
from kho.sanitizer.heuristics import (
    HEX,
    SIGN_INSIDE,
    WORD,
    decodes_to_pair,
    is_opaque,
    is_password,
    is_stand_in,
    is_strong_password,
    mean_run,
)
from kho.sanitizer.rule import Rule, value_of

# --- values known by their surroundings -----------------------------------------------------------------------------

# Quoted, or bare up to a delimiter; with blanks inside it is a sentence. A prefix (bytes literal, []byte() is not part
# of the value.
QUOTED = (
    r"(?:\[\]byte\(|@|[bBrRuU](?=[\"']))?\\{0,2}"
    r"(?:\"(?P<d>[^\"\s]{1,300}+)\"|'(?P<s>[^'\s]{1,300}+)'|`(?P<t>[^`\s]{1,300}+)`)"
)
# The next field of a query string ends a bare value, another `&` does not.
BARE = r"(?P<u>[!#-%*+\--:=?-Z^_a-z~\\]{1,200}+(?:&(?!\w{1,30}=)[!#-%*+\--:=?-Z^_a-z~\\]{0,60}+){0,3}+)"

# Words between the name and the separator: "password for root: ...", "mật khẩu database là ...".
GAP = r"(?P<gap>(?:[ \t][^\s:=<>|\"'`,;]{1,16}+){0,3}?)"
# The quotes or brackets that close an identifier. Possessive repeats (`}+`) avoid backtracking on a mismatch.
CLOSE = r"[\\\"'`\])*]{0,4}+"
# Separator between name and value, most specific first.
SIGN = (
    r"(?P<sep>[ \t]{0,4}:[ \t]{0,2}[&*]?[A-Za-z_][\w<>\[\].|?]{0,30}[ \t]=[ \t]{1,2}"  # typed: `name: &str = `
    r"|[ \t]{0,12}(?::=|=>|->|={1,3}|!={1,2}|[:|\u2192])[ \t]{0,12}"
    r"|[ \t]{1,4}(?:android:)?(?:value|content)[ \t]{0,2}=[ \t]{0,2}"  # <property name="password" value="...">
    r"|>(?=[^<\n]{1,200}+</)"  # <password>...</password>, but not our own placeholder
    r"|,[ \t]{0,4}(?=[\"'`])|\((?=[\"'`])"  # define('NAME', '...'), setPassword("...")
    r"|[ \t]{1,4}(?:is|was|to|as|là|thành|bằng)[ \t]{1,4})"
)
WORD_SIGN = r"(?P<sep>[ \t]{0,4}(?:[:=|\u2192]|->|là|thành|bằng|是|为|為|改成了?|改为|设为):?[ \t]{0,4})"
VALUE = f"(?:{QUOTED}|{BARE})"


# Tried in this order: with a separator, then with nothing but blanks in between (`--password x`, `WITH PASSWORD 'x'`).
def name_tails(more: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns for what follows a name; `more` is how the identifier may continue."""
    return (
        regex(f"(?P<more>{more}){CLOSE}{GAP}{SIGN}{VALUE}"),
        regex(rf"(?P<more>{more}){CLOSE}(?P<gap>)(?P<sep>[ \t]{{1,4}}){VALUE}"),
    )


NAME_TAILS = name_tails(r"[A-Za-z0-9_.-]{0,40}+")
SHORT_NAME_TAILS = name_tails(r"(?![a-z])[A-Za-z0-9_.-]{0,40}+")
KEY_TAILS = name_tails(r"(?![A-Za-z])[0-9]{0,4}+")
# Vietnamese and Chinese: no letters continue the name, and Chinese has no blanks between words.
WORD_TAILS = (
    regex(r"(?P<more>)(?P<gap>[^\n:=<>|\"'`,;。、]{0,12}?)[\"'`*)]{0,3}" + WORD_SIGN + VALUE),
    regex(r"(?P<more>)(?P<gap>)(?P<sep>[ \t]{0,4})" + VALUE),
)

PASSWORD_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "contraseña",
    "storepass",
    "keypass",
    "requirepass",
)
# Only as a separate word or part of an identifier ("dbPass", "SMTP_PW"), not inside other words.
SHORT_PASSWORD_NAMES = ("pass", "pwd", "psk", "pw", "mk")
TOKEN_NAMES = ("secret", "token", "credential", "phpsessid", "sessionid", "_auth")
SHORT_TOKEN_NAMES = ("sid", "session", "jwt", "sess")
PASSWORD_WORDS = ("mật khẩu", "mat khau", "密码", "密碼", "口令")
TOKEN_WORDS = (
    "khóa api", "khoá api", "khóa bí mật", "khoá bí mật", "khóa truy cập", "khoá truy cập", "mã truy cập", "mã bí mật",
    "mã thông báo", "密钥", "密鑰", "秘钥", "令牌", "權杖", "私钥", "凭证",
)  # fmt: skip

# "key" is too common a word: the word before it decides how random the value has to be.
KEY_OWNERS = (
    "api", "app", "application", "access", "secret", "private", "signing", "signature", "encryption", "encrypt", "auth",
    "hmac", "master", "account", "shared", "session", "service", "storage", "license", "aes", "crypto", "webhook",
    "admin", "deploy", "subscription", "consumer", "client", "jwt", "cookie", "database", "db", "backup", "server",
    "token",
)  # fmt: skip
# An identifier may continue in these words without a break ("secretkey", "tokens").
GLUED = ("s", "key", "token", "secret", "value", "base", "access", "id")
# Words after the name that make it a property of a secret, not the secret.
PROPERTY_WORDS = frozenset(
    "name names type types field fields count counts length len url uri path file dir folder header hint label policy"
    " regex pattern format expiry expires expire expiration ttl ref refs encoder placeholder error errors message size"
    " limit min max required reset hash hashed digest algorithm algo manager provider store class input prompt index"
    " position pos start end offset usage used budget version arn title text link endpoint issuer audience env var"
    " column attr attribute state status kind scope scopes at date time age rotation strength confirmation tests"
    " public pub fingerprint page".split()
)
# Words before the name that make it something else.
OTHER_OWNERS = (
    "public",
    "pub",
    "page",
    "next",
    "continuation",
    "progress",
    "cancel",
    "sync",
    "cancellation",
    "max",
    "pad",
    "by",
    "stop",
)
# Bare values that are names in code: letters first, digits only as a short tail, parts joined by dots or underscores.
CODE_NAME = regex(r"[A-Za-z_][A-Za-z_.:]{0,200}[0-9]{0,2}")


class Assigned(NamedTuple):
    """A name and the value assigned to it."""

    name: str
    before: str
    more: str
    gap: str
    sep: str
    value: str
    quoted: bool
    after: str


def read_assignment(match: re.Match[str], name: str) -> Assigned:
    text, group = match.string, match.lastgroup or "u"
    end = match.end(group)
    begin = match.start() - len(name)
    return Assigned(
        name=text[begin : match.start()],
        before=text[max(0, begin - 24) : begin],
        more=match["more"],
        gap=match["gap"],
        sep=match["sep"].strip(" \t"),
        value=text[match.start(group) : end],
        quoted=group != "u",
        after=text[end : end + 2],
    )


def is_own_word(found: Assigned) -> bool:
    """True if the short name is not part of another word: `pass` in `dbPass` and `SMTP_PASS`, not in `compass`."""
    if found.sep in (",", "("):
        return False  # a call or a list that contains such a short name: `_mk_suite("test_1")`
    previous = found.before[-1:]
    if previous.isalpha() and not (found.name[0].isupper() and previous.islower()):
        return False
    return not (found.more[:1].isalpha() and (found.more[0].islower() or found.name.isupper()))


def names_a_secret(found: Assigned) -> bool:
    """True if the whole identifier still means the secret itself."""
    more = found.more
    if more[:1].isalpha() and (more[0].islower() or found.name.isupper()) and not more.lower().startswith(GLUED):
        return False
    if any(word.lower() in PROPERTY_WORDS for word in WORD.findall(more)):
        return False
    return not found.before.lower().rstrip(" _-.").endswith(OTHER_OWNERS)


def is_code(found: Assigned) -> bool:
    """True if a bare value is an expression: a call, an index, a variable."""
    value = found.value
    if found.after[:1] in ("(", "[", "{") or (found.after[:1] == "<" and found.sep != ">"):
        return True
    # Paths, options and operators; but one in thirty base64 values begins with such a character too.
    if value[0] in "$&*=:?-/\\." and not is_opaque(value.lstrip("/-")):
        return True
    if "=" in found.sep and not value.isdigit() and CODE_NAME.fullmatch(value) and not is_opaque(value):
        # NAME=value and name: value are how configuration is written; spaces and commas are how code is.
        return "." in value or found.name.lower() in value.lower() or found.after[:1] in (")", ",", "]", "}")
    return found.name.lower() in value.lower() and not SIGN_INSIDE.search(value)


def is_assigned_password(found: Assigned) -> bool:
    if found.value[:1] in "$%{" or (not found.quoted and is_code(found)):
        return False
    is_verb = found.name == "pass" and found.sep in ("", "(") and "--" not in found.before
    if is_verb and CODE_NAME.fullmatch(found.value):
        return False  # "pass force_zip64 to ..."
    # Without a separator, or with other words in between, only the value itself is evidence. An option's value needs no
    # separator.
    unsure = found.gap or found.sep in (",", "(") or (not found.sep and not found.quoted and "--" not in found.before)
    return is_strong_password(found.value) if unsure else is_password(found.value)


def is_assigned_token(found: Assigned) -> bool:
    if not found.quoted and is_code(found):
        return False
    return is_opaque(found.value) or (
        found.sep != "" and len(found.value) >= 10 and is_strong_password(found.value)
        and mean_run(found.value) < 3.2
    )  # fmt: skip


def is_assigned_key(found: Assigned) -> bool:
    if not found.quoted and is_code(found):
        return False
    if found.before.lower().rstrip(" _-.").endswith(KEY_OWNERS):
        return is_opaque(found.value)
    return is_opaque(found.value, 24) and not HEX.fullmatch(found.value) and mean_run(found.value) < 2.6


# Length of the shortest value that any of these accept.
SHORTEST_VALUE = 6


@dataclass(frozen=True)
class NameRule:
    """Names of secrets whose value follows; `accept` judges the value together with its surroundings."""

    kind: str
    names: tuple[str, ...]
    tails: tuple[re.Pattern[str], ...]
    accept: Callable[[Assigned], bool]


NAME_RULES = (
    NameRule(
        "password", PASSWORD_NAMES, NAME_TAILS, lambda found: names_a_secret(found) and is_assigned_password(found)
    ),
    NameRule(
        "password",
        SHORT_PASSWORD_NAMES,
        SHORT_NAME_TAILS,
        lambda found: is_own_word(found) and names_a_secret(found) and is_assigned_password(found),
    ),
    NameRule("secret", TOKEN_NAMES, NAME_TAILS, lambda found: names_a_secret(found) and is_assigned_token(found)),
    NameRule(
        "session",
        SHORT_TOKEN_NAMES,
        SHORT_NAME_TAILS,
        lambda found: is_own_word(found) and names_a_secret(found) and is_assigned_token(found),
    ),
    NameRule("secret", ("key",), KEY_TAILS, lambda found: names_a_secret(found) and is_assigned_key(found)),
    NameRule(
        "password",
        PASSWORD_WORDS,
        WORD_TAILS,
        lambda found: not is_stand_in(found.value) and is_assigned_password(found),
    ),
    NameRule("secret", TOKEN_WORDS, WORD_TAILS, is_assigned_token),
)


def context(
    kind: str,
    anchors: tuple[str, ...],
    pattern: str,
    accept: Callable[[str], bool],
    at_anchor: bool = True,
) -> Rule:
    """Build a rule for one layout; `accept` judges the value."""
    return Rule(kind, regex(pattern, re.IGNORECASE), anchors, lambda match: accept(value_of(match)), at_anchor, rank=1)


def is_url_password(value: str) -> bool:
    return len(value) >= 4 and not is_stand_in(value) and not value.startswith(("$", "%s", "{"))


def is_argument(value: str) -> bool:
    return is_password(value) and not value.startswith(("-", "$", "/", "<", "[", "{"))


def is_header_value(value: str) -> bool:
    return is_opaque(value) or (len(value) >= 8 and is_strong_password(value))


def is_value(value: str) -> bool:
    return is_password(value) or is_opaque(value)


# The value of a command-line option, quoted or not.
ARGUMENT = r"[\"']?(?P<v>[^\s\"'<>|]{4,200})"
OPTIONS = r"[^\n|;&]{0,120}?[ \t]"

# Commands that take a password: literals to find them by, the pattern, and the test of the value.
COMMANDS: tuple[tuple[tuple[str, ...], str, Callable[[str], bool]], ...] = (
    (("mysql", "mariadb"), rf"(?:mysql(?:dump|admin|import|show|check)?|mariadb){OPTIONS}-p{ARGUMENT}", is_argument),
    (("sshpass ",), rf"sshpass{OPTIONS}-p[ \t]{{0,3}}{ARGUMENT}", is_argument),
    ((" login ",), rf" login{OPTIONS}-p[ \t]{{1,3}}{ARGUMENT}", is_argument),
    (("redis-cli",), rf"redis-cli{OPTIONS}-a[ \t]{{1,3}}{ARGUMENT}", is_argument),
    (  # htpasswd -b [file] user password
        ("htpasswd ",),
        rf"htpasswd{OPTIONS}-[a-z]{{0,6}}b[a-z]{{0,6}}[ \t]{{1,3}}[^\n ]{{1,100}}[ \t]{{1,3}}"
        rf"(?:[^\n ]{{1,64}}[ \t]{{1,3}})?{ARGUMENT}",
        is_argument,
    ),
    (
        ("curl ", "wget "),
        rf"(?:curl|wget){OPTIONS}(?:-u|--user|--proxy-user)[ \t=]{{0,3}}[\"']?"
        r"[^\s:\"'$]{1,64}:(?P<v>[^\s\"'<>]{4,200})",
        is_url_password,
    ),
    (("smbclient",), rf"smbclient{OPTIONS}-U[ \t]{{0,3}}[\"']?[^\s%\"']{{1,64}}%(?P<v>[^\s\"']{{4,128}})", is_password),
    (("pass:",), r"(?<=[ \t\"'])pass:(?P<v>[^\s\"'<>]{4,128})", is_password),
    (
        ("sqlplus ", "jdbc:oracle:", "rman ", "expdp ", "impdp "),
        r"(?:jdbc:oracle:\w{2,6}:|[a-z]{4,7}[ \t]{1,3}(?:-[a-z][ \t]{1,2})?)[\w.]{1,64}/"
        r"[\"']?(?P<v>[^\s@/\"']{4,128})@",
        is_url_password,
    ),
    (
        ("identified by",),
        r"identified by[ \t]{1,4}(?:password[ \t]{1,4})?['\"](?P<v>[^'\"\n]{4,128})",
        is_password,
    ),
)

# Quotes, escaped or not; what stands between a name and its value; names that mean the secret itself.
MARK = r"[\\\"']{0,3}"
EQUALS = r"[ \t]{0,3}[:=][ \t]{0,3}"
NAMED_SECRET = r"(?:password|passwd|passphrase|secret|token|api_?key|access_?key)"

CONTEXT_RULES: list[Rule] = [
    context(
        "aws-secret-key",
        ("akia", "asia"),
        r"A[KS]IA[A-Z0-9]{16}[^\0]{1,60}?(?<![A-Za-z0-9+/=])(?P<v>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
        lambda value: is_opaque(value) and not HEX.fullmatch(value),
    ),
    context("azure-sas", ("sig=",), r"(?<!\w)sig=(?P<v>[A-Za-z0-9%+/_-]{40,90}={0,2})", is_opaque),
    context("azure-key", ("accountkey=", "sharedaccesskey="), r"\w{9,15}=(?P<v>[A-Za-z0-9+/]{40,90}={0,2})", is_opaque),
    context(
        "password-in-url",
        ("://",),
        r"://[^\s:/@\"'<>`]{0,64}:(?P<v>[^\s:/@\"'<>`]{1,128})@[\w\[$%{]",
        is_url_password,
    ),
    context("authorization", ("bearer ",), r"bearer[ \t]{1,3}\\?[\"']?(?P<v>[\w.~+/=-]{12,4000})", is_header_value),
    context("authorization", ("basic ",), r"basic[ \t]{1,3}(?P<v>[A-Za-z0-9+/]{8,400}={0,2})", decodes_to_pair),
    context(
        "authorization",
        ("authorization",),
        r"authorization[\\\"']{0,3}[ \t]{0,3}[:=,][ \t]{0,3}[\\\"']{0,3}(?:[a-z-]{2,16}[ \t]{1,2})?"
        r"(?P<v>[\w.~+/=:-]{12,2000})",
        is_header_value,
    ),
    context(
        "authorization",
        ('auth"',),
        r"auth\\?\"[ \t]{0,3}:[ \t]{0,3}\\?\"(?P<v>[A-Za-z0-9+/]{8,400}={0,2})",
        decodes_to_pair,
    ),
    context("cookie", ("cookie:",), r"cookie:[^\n]{0,200}?=(?P<v>[\w.~+/%-]{20,400})", is_opaque),
    *(context("password", anchors, pattern, accept) for anchors, pattern, accept in COMMANDS),
    context(
        "password",
        ("sudo -s",),
        r"(?:echo|printf)[ \t]{1,3}[\"']?(?P<v>[^\s\"'|]{4,128})[\"']?[ \t]{0,3}\|[ \t]{0,3}sudo -S",
        is_password,
        at_anchor=False,
    ),
    context(  # os.environ.get("DB_PASSWORD", "default")
        "password",
        ("getenv", "environ.get", "environ["),
        rf"(?:getenv|environ\.get|environ\[)[^\n]{{0,12}}?\w{{0,40}}(?:pass|pwd|pw|secret|token|key)\w{{0,20}}{MARK}"
        r"(?:[ \t]{0,3},[ \t]{0,3}|\)[ \t]{1,2}(?:or|\|\||\?\?)[ \t]{1,2})"
        r"[bru]?\\?[\"'](?P<v>[^\s\"\\]{6,128}?)\\?[\"']",
        is_password,
    ),
    context(  # {"name": "DB_PASSWORD", "value": "..."}, and the same in YAML
        "password",
        ("name", "key"),
        rf"(?:name|key){MARK}{EQUALS}{MARK}[\w.-]{{0,40}}{NAMED_SECRET}{MARK}[ \t]{{0,3}},?\s{{1,40}}"
        rf"{MARK}value{MARK}{EQUALS}{MARK}(?P<v>[^\s\"'\\,]{{6,300}})",
        is_value,
    ),
    context(  # property lists: <key>Password</key><string>...</string>
        "password",
        ("<key>",),
        rf"<key>[\w .-]{{0,40}}{NAMED_SECRET}</key>\s{{0,40}}<string>(?P<v>[^\s<]{{6,300}})</string>",
        is_value,
    ),
    context(  # .pgpass: host:port:database:user:password
        "password",
        (":",),
        r"(?<![\w.*-])[\w.*-]{1,80}:(?:[0-9]{4,5}|\*):[\w*-]{1,64}:[\w.-]{1,64}:(?P<v>[^\s:]{6,128})",
        is_strong_password,
        at_anchor=False,
    ),
]

# Values of a Kubernetes Secret are base64 whatever their name.
KUBERNETES_SECRET = regex(r"kind[\"']?:[ \t]{0,3}[\"']?Secret\b")
KUBERNETES_DATA = regex(r"^[ \t]{0,12}data:[ \t]{0,3}\r?\n", re.MULTILINE)
KUBERNETES_ENTRY = regex(
    r"[ \t]{1,16}[\w.-]{1,80}:[ \t]{1,3}[\"']?(?P<v>[A-Za-z0-9+/]{4,8000}={0,2})[\"']?[ \t\r]{0,3}(?:\n|\Z)", re.ASCII
)
