"""Rules for secrets: the rule table and the tests that it uses.

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
    is_template,
    mean_run,
)
from kho.sanitizer.rule import Rule, value_of

# --- tokens with a format of their own ------------------------------------------------------------------------------

# Not inside a longer word; an escaped line break in front ("\nghp_...") does not count as a word.
LEFT = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
RIGHT = r"(?![A-Za-z0-9])"


def token(kind: str, *shapes: tuple[str, str]) -> list[Rule]:
    """Build one rule for each (literal prefix, pattern of the rest)."""
    return [
        Rule(kind, regex(f"{LEFT}{re.escape(prefix)}{rest}{RIGHT}"), (prefix.lower(),), accept=not_documented)
        for prefix, rest in shapes
    ]


def not_documented(match: re.Match[str]) -> bool:
    """False for documentation keys, which contain EXAMPLE, and for masked ones, which are all x."""
    value = value_of(match)
    return len(set(value)) >= 8 and not is_template(value)


A, U, H = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"

KEY_LINE = regex(r"[A-Za-z0-9+/]{30}")

TOKEN_RULES: list[Rule] = [
    *token("aws-access-key", *((p, "[A-Z0-9]{16}") for p in ("AKIA", "ASIA", "ABIA", "ACCA"))),
    *token("gcp-api-key", ("AIza", f"{U}{{35}}")),
    *token("google-oauth", ("ya29.", f"{U}{{30,400}}"), ("GOCSPX-", f"{U}{{28}}"), ("1//0", f"{U}{{40,200}}")),
    *token(
        "azure-client-secret",
        *((f"{d}Q~", "[A-Za-z0-9_.~-]{31,34}") for d in "78"),
    ),
    *token("digitalocean-token", *((f"do{c}_v1_", f"{H}{{64}}") for c in "por")),
    *token("alibaba-key", ("LTAI", f"{A}{{12,26}}")),
    *token("tencent-key", ("AKID", f"{A}{{32}}")),
    *token(
        "github-token",
        *((f"gh{c}_", f"{A}{{36,255}}") for c in "pousr"),
        ("github_pat_", "[A-Za-z0-9_]{60,255}"),
    ),
    *token(
        "gitlab-token",
        *(
            (f"gl{c}-", f"{U}{{20,200}}")
            for c in ("pat", "ptt", "rt", "dt", "cbt", "ft", "soat", "oas", "agent", "imt", "ffct")
        ),
    ),
    *token("slack-token", *((f"xox{c}-", "[A-Za-z0-9-]{20,250}") for c in "abpors"), ("xapp-", "[A-Za-z0-9-]{30,250}")),
    *token("slack-token", ("xoxe.xox", "[bp]-[A-Za-z0-9-]{30,250}")),
    *token("stripe-key", *((f"{k}_{m}_", f"{A}{{16,250}}") for k in ("sk", "rk") for m in ("live", "test", "prod"))),
    *token("webhook-secret", ("whsec_", "[A-Za-z0-9+/]{24,80}")),
    *token("twilio-key", ("SK", f"{H}{{32}}")),
    *token("sendgrid-key", ("SG.", rf"{U}{{16,32}}\.{U}{{30,64}}")),
    *token("mailgun-key", ("key-", f"{H}{{32}}")),
    *token("brevo-key", ("xkeysib-", f"{H}{{64}}-{A}{{16}}"), ("xsmtpsib-", f"{H}{{64}}-{A}{{16}}")),
    *token("npm-token", ("npm_", f"{A}{{36}}")),
    *token("pypi-token", ("pypi-AgE", f"{U}{{50,400}}")),
    *token("rubygems-key", ("rubygems_", f"{H}{{48}}")),
    *token("huggingface-token", ("hf_", f"{A}{{30,40}}"), ("api_org_", f"{A}{{34}}")),
    *token("anthropic-key", ("sk-ant-", f"{U}{{32,200}}")),
    *token(
        "openai-key",
        *((f"sk-{c}-", f"{U}{{32,250}}") for c in ("proj", "svcacct", "admin", "None", "or-v1")),
        ("sk-", f"{A}{{20,64}}"),
    ),
    *token(
        "ai-service-key",
        ("gsk_", f"{A}{{40,60}}"),
        ("r8_", f"{A}{{37}}"),
        ("pplx-", f"{A}{{40,60}}"),
        ("xai-", f"{A}{{70,90}}"),
    ),
    *token("shopify-token", *((f"shp{c}_", f"{H}{{32}}") for c in ("at", "ca", "pa", "ss", "ua"))),
    *token("square-token", *((f"sq0{c}-", f"{U}{{22,43}}") for c in ("atp", "csp", "idp")), ("EAAA", f"{U}{{56,120}}")),
    *token("facebook-token", ("EAAC", f"{A}{{60,250}}"), ("EAAB", f"{A}{{60,250}}")),
    *token("databricks-token", ("dapi", f"{H}{{32}}(?:-[0-9])?"), ("dose", f"{H}{{32}}")),
    *token("vault-token", *((f"hv{c}.", f"{U}{{24,300}}") for c in "sbr")),
    *token("doppler-token", *((f"dp.{c}.", f"{U}{{40,60}}") for c in ("pt", "ct", "sa", "scim", "audit"))),
    *token("doppler-token", ("dp.st.", r"[a-z0-9_.-]{0,40}[A-Za-z0-9]{40,44}")),
    *token("figma-token", ("figd_", f"{U}{{36,60}}")),
    *token("linear-key", ("lin_api_", f"{A}{{40}}"), ("lin_oauth_", f"{H}{{64}}")),
    *token("notion-token", ("ntn_", f"{A}{{40,50}}"), ("secret_", f"{A}{{43}}")),
    *token("grafana-token", ("glsa_", f"{A}{{32}}_{A}{{8}}"), ("glc_", "[A-Za-z0-9+/]{32,400}={0,2}")),
    *token("sentry-token", ("sntrys_", "[A-Za-z0-9+/=_]{60,400}"), ("sntryu_", f"{H}{{64}}")),
    *token("postman-key", ("PMAK-", f"{H}{{24}}-{H}{{34}}")),
    *token("docker-token", ("dckr_pat_", f"{U}{{27}}"), ("dckr_oat_", f"{U}{{32}}")),
    *token(
        "atlassian-token",
        ("ATATT3", "[A-Za-z0-9_=-]{80,250}"),
        ("ATBB", f"{A}{{32}}"),
        ("ATCTT3", "[A-Za-z0-9_=-]{80,250}"),
    ),
    *token("supabase-token", ("sbp_", f"{H}{{40}}"), ("sb_secret_", f"{U}{{30,50}}")),
    *token("newrelic-key", ("NRAK-", "[A-Z0-9]{27}"), ("NRII-", f"{U}{{32}}"), ("NRJS-", f"{H}{{19}}")),
    *token("planetscale-token", *((f"pscale_{c}_", "[A-Za-z0-9_.-]{32,64}") for c in ("tkn", "pw", "oauth"))),
    *token("age-key", ("AGE-SECRET-KEY-1", "[A-Z0-9]{58}")),
    *token("airtable-token", ("pat", rf"{A}{{14}}\.{H}{{64}}")),
    *token("dynatrace-token", ("dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}")),
    *token("fly-token", ("fm2_", "[A-Za-z0-9+/]{60,400}={0,2}"), ("fo1_", f"{U}{{43}}")),
    *token("netlify-token", ("nfp_", f"{A}{{36}}")),
    *token("render-key", ("rnd_", f"{A}{{28,40}}")),
    *token("resend-key", ("re_", f"{A}{{8,10}}_{A}{{20,30}}")),
    *token("pulumi-token", ("pul-", f"{H}{{40}}")),
    *token("tailscale-key", ("tskey-", rf"[a-z]{{3,12}}-{A}{{8,24}}-{A}{{16,48}}")),
    *token("buildkite-token", ("bkua_", f"{H}{{40}}")),
    *token("sonar-token", *((f"sq{c}_", f"{H}{{40}}") for c in "apu")),
    *token("easypost-key", ("EZAK", f"{A}{{54}}"), ("EZTK", f"{A}{{54}}")),
    *token("kho-key", ("kho_", rf"{A}{{8}}_{U}{{43}}")),
    *token("artifactory-key", ("AKCp", f"{A}{{60,75}}")),
    *token("cloudinary-url", ("cloudinary://", rf"[0-9]{{10,20}}:{U}{{20,40}}")),
    Rule(
        "jwt",
        regex(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{16,1200}"),
        ("eyj",),
    ),
    Rule(
        "slack-webhook",
        regex(r"https?://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,150}"),
        ("hooks.slack.com/",),
        not_documented,
        at_anchor=False,
    ),
    Rule(
        "discord-webhook",
        regex(
            r"https?://(?:\w{2,8}\.)?discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,21}/[\w-]{50,90}",
            re.ASCII,
        ),
        ("discord.com/api/", "discordapp.com/api/"),
        not_documented,
        at_anchor=False,
    ),
    Rule(
        "teams-webhook",
        regex(r"https?://[\w-]{1,63}\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,250}"),
        ("webhook.office.com/",),
        at_anchor=False,
    ),
    Rule(
        "discord-token",
        regex(r"(?<![\w.-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}(?![\w.-])", re.ASCII),
        (".",),
        lambda match: mean_run(match[0]) < 2.6,
        at_anchor=False,
    ),
    Rule(
        "telegram-token",
        regex(r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
        (":aa",),
        not_documented,
        at_anchor=False,
    ),
    Rule(
        "terraform-token",
        regex(r"(?<![A-Za-z0-9.])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"),
        (".atlasv1.",),
        at_anchor=False,
    ),
    Rule(
        "mailchimp-key",
        regex(r"(?<![0-9A-Za-z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])"),
        ("-us",),
        not_documented,
        at_anchor=False,
    ),
    Rule(
        "private-key",
        # The body stops at the next row of dashes, so a text full of headers stays linear. A key cut off before its
        # footer is taken as far as it looks like base64.
        regex(
            r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:[^-\0]|-(?!----)){40,30000}-----END [A-Z0-9 ]{4,60}-----|[A-Za-z0-9+/=\s\\]{40,8000})"
        ),
        ("-----begin ",),
        # Code that only mentions the header has no such line.
        lambda match: bool(KEY_LINE.search(match[0])),
    ),
    Rule(
        "private-key",
        regex(r"Private-Lines: [0-9]{1,3}\r?\n(?P<v>[A-Za-z0-9+/=\r\n]{40,8000})"),
        ("private-lines: ",),
    ),
]


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
