"""Labelled texts for the sanitiser: random secrets, personal data and harmless look-alikes.

Two splits with different wording, layouts and variable names. `held_out` was written before the patterns and is
never used to tune them; `tuned` is the one to look at while changing a rule.

No value here is real, and token prefixes are glued together at run time so that secret scanners which read this
repository find no complete token in the source.
"""

import base64
import json
import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

Label = Literal["secret", "personal", "harmless"]
Split = Literal["tuned", "held_out"]
Maker = Callable[[random.Random], str]


@dataclass(frozen=True)
class Item:
    """One text; `value` is the part that must not survive (empty for harmless texts)."""

    label: Label
    kind: str
    text: str
    value: str = ""


@dataclass(frozen=True)
class Family:
    """Templates of one kind; `§` stands for the value, `«name»` for a filler."""

    kind: str
    make: Maker
    templates: tuple[str, ...]


ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
BASE64URL = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


def pick(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def token(prefix: str, alphabet: str, length: int, suffix: str = "") -> Maker:
    return lambda rng: prefix + pick(rng, alphabet, length) + suffix


def one_of(*makers: Maker) -> Maker:
    return lambda rng: rng.choice(makers)(rng)


# --- values ---------------------------------------------------------------------------------------------------------

WORDS = (
    "Mimosa",
    "tractor",
    "Bluebird",
    "kestrel",
    "Saigon",
    "lotus",
    "Copper",
    "walrus",
    "Harbor",
    "pepper",
    "Winter",
)


def human_password(rng: random.Random) -> str:
    """What people type: a word or two, digits, a sign."""
    word = rng.choice(WORDS)
    digits = pick(rng, string.digits, rng.choice((2, 3, 4)))
    return rng.choice(
        (
            f"{word}{digits}!",
            f"{word}_{rng.choice(WORDS)}{digits}",
            f"{word.swapcase()}#{digits}",
            f"{digits}{word}{rng.choice(WORDS)}!",
            f"{word}-{digits}-{rng.choice(WORDS)}",
        )
    )


def strong_password(rng: random.Random) -> str:
    """What a generator makes; the signs are ones that need no quoting in the usual places."""
    body = list(pick(rng, ALNUM, rng.randint(10, 18)) + pick(rng, "!_-.*+", 2) + pick(rng, string.digits, 2))
    rng.shuffle(body)
    return rng.choice(string.ascii_letters) + "".join(body) + rng.choice(ALNUM)


def url_password(rng: random.Random) -> str:
    return rng.choice(WORDS) + pick(rng, ALNUM, rng.randint(4, 14)) + pick(rng, string.digits, 2)


password = one_of(human_password, strong_password)
opaque = one_of(
    token("", HEX, 32),
    token("", HEX, 64),
    token("", ALNUM, 32),
    token("", BASE64URL, 43),
    token("", ALNUM, 24),
    lambda rng: base64.b64encode(rng.randbytes(32)).decode(),
)
aws_id = one_of(token("AK" + "IA", string.ascii_uppercase + "234567", 16), token("AS" + "IA", UPPER, 16))
aws_secret = token("", BASE64, 40)
google_key = token("AI" + "za" + "Sy", BASE64URL, 33)
azure_key: Maker = lambda rng: base64.b64encode(rng.randbytes(64)).decode()  # noqa: E731
github = one_of(
    *(token("gh" + letter + "_", ALNUM, 36) for letter in "pousr"),
    lambda rng: "github" + "_pat_" + pick(rng, ALNUM, 22) + "_" + pick(rng, ALNUM, 59),
)
gitlab = one_of(token("gl" + "pat-", BASE64URL, 20), token("gl" + "ptt-", HEX, 40), token("gl" + "rt-", BASE64URL, 20))
slack = one_of(
    lambda rng: (
        f"xox{rng.choice('bp')}-{pick(rng, '123456789', 12)}-{pick(rng, '123456789', 13)}-{pick(rng, ALNUM, 24)}"
    ),
    lambda rng: f"xapp-1-A{pick(rng, UPPER, 10)}-{pick(rng, '123456789', 13)}-{pick(rng, HEX, 64)}",
)
slack_hook: Maker = lambda rng: (  # noqa: E731
    "https://hooks.sla" + f"ck.com/services/T{pick(rng, UPPER, 8)}/B{pick(rng, UPPER, 10)}/{pick(rng, ALNUM, 24)}"
)
discord: Maker = lambda rng: (  # noqa: E731
    rng.choice("MNO") + pick(rng, ALNUM, 25) + "." + pick(rng, ALNUM, 6) + "." + pick(rng, BASE64URL, 38)
)
discord_hook: Maker = lambda rng: (  # noqa: E731
    "https://discord.com/api/web" + f"hooks/{pick(rng, '123456789', 18)}/{pick(rng, BASE64URL, 68)}"
)
telegram: Maker = lambda rng: pick(rng, "123456789", 10) + ":AA" + pick(rng, BASE64URL, 33)  # noqa: E731
stripe = one_of(token("sk" + "_live_", ALNUM, 24), token("rk" + "_live_", ALNUM, 99), token("sk" + "_test_", ALNUM, 24))
stripe_hook = token("wh" + "sec_", ALNUM, 32)
twilio = token("SK", HEX, 32)
sendgrid: Maker = lambda rng: "SG" + "." + pick(rng, BASE64URL, 22) + "." + pick(rng, BASE64URL, 43)  # noqa: E731
mailgun = token("key" + "-", HEX, 32)
npm = token("np" + "m_", ALNUM, 36)
pypi = token("py" + "pi-AgEIcHlwaS5vcmc", BASE64URL, 120)
hugging_face = token("hf" + "_", string.ascii_letters, 34)
openai = one_of(
    token("sk" + "-proj-", BASE64URL, 124), token("sk" + "-", ALNUM, 48), token("sk" + "-svcacct-", BASE64URL, 70)
)
anthropic = token("sk" + "-ant-api03-", BASE64URL, 93, "AA")
google_oauth = one_of(token("ya" + "29.a0", BASE64URL, 120), token("GOC" + "SPX-", BASE64URL, 28))
shopify = one_of(token("shp" + "at_", HEX, 32), token("shp" + "ss_", HEX, 32))
square = one_of(token("sq0" + "atp-", BASE64URL, 22), token("EA" + "AAE", BASE64URL, 60))
databricks = token("da" + "pi", HEX, 32)
vault = token("hv" + "s.", BASE64URL, 95)
doppler = token("dp" + ".pt.", ALNUM, 43)
figma = token("fi" + "gd_", BASE64URL, 40)
digital_ocean = token("do" + "p_v1_", HEX, 64)
alibaba = token("LT" + "AI5t", ALNUM, 18)
tencent = token("AK" + "ID", ALNUM, 32)
kho: Maker = lambda rng: (  # noqa: E731
    "kh" + "o_" + pick(rng, string.ascii_lowercase + string.digits, 8) + "_" + pick(rng, BASE64URL, 43)
)
other_service = one_of(
    token("lin" + "_api_", ALNUM, 40),
    token("nt" + "n_", ALNUM, 46),
    token("gl" + "sa_", ALNUM, 32, "_1a2b3c4d"),
    token("PM" + "AK-", HEX, 24, "-" + "0a1b2c3d4e5f60718293a4b5c6d7e8f901"),
    token("dck" + "r_pat_", BASE64URL, 27),
    token("ATAT" + "T3xFfGF0", BASE64URL, 170, "=1A2B3C4D"),
    token("sb" + "p_", HEX, 40),
    token("gs" + "k_", ALNUM, 52),
    token("r8" + "_", ALNUM, 37),
    token("rub" + "ygems_", HEX, 48),
    token("NR" + "AK-", UPPER, 27),
    token("pp" + "lx-", ALNUM, 48),
    token("AGE-SEC" + "RET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    lambda rng: pick(rng, ALNUM, 14) + ".atlas" + "v1." + pick(rng, BASE64URL, 67),
    lambda rng: "pa" + "t" + pick(rng, ALNUM, 14) + "." + pick(rng, HEX, 64),
)


def jwt(rng: random.Random) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")

    claims: dict[str, object] = {"sub": pick(rng, string.digits, 10), "iat": rng.randint(10**9, 2 * 10**9)}
    return ".".join(
        (part({"alg": rng.choice(("HS256", "RS256")), "typ": "JWT"}), part(claims), pick(rng, BASE64URL, 43))
    )


def pem(rng: random.Random) -> str:
    name = rng.choice(("RSA ", "EC ", "OPENSSH ", "DSA ", "", "ENCRYPTED ")) + "PRIV" + "ATE KEY"
    body = "\n".join(pick(rng, BASE64, 64) for _ in range(rng.randint(3, 8)))
    return f"-----BEGIN {name}-----\n{body}\n{pick(rng, BASE64, 30)}==\n-----END {name}-----"


def pgp(rng: random.Random) -> str:
    name = "PGP PRIV" + "ATE KEY BLOCK"
    body = "\n".join(pick(rng, BASE64, 64) for _ in range(6))
    return f"-----BEGIN {name}-----\n\n{body}\n=aB3d\n-----END {name}-----"


def pem_escaped(rng: random.Random) -> str:
    return pem(rng).replace("\n", "\\n")


def basic(rng: random.Random) -> str:
    return base64.b64encode(f"{rng.choice(NAMES)}:{password(rng)}".encode()).decode()


def wrapped_base64(rng: random.Random) -> str:
    """A secret inside a base64 blob with nothing around it to give it away."""
    inner = rng.choice(
        (f"DB_PASSWORD={strong_password(rng)}\n", f"token: {github(rng)}\n", f'{{"k":"{stripe(rng)}"}}\n')
    )
    return base64.b64encode(f"# settings for {rng.choice(NAMES)}\n{inner}".encode()).decode()


def wrapped_percent(rng: random.Random) -> str:
    return quote(
        rng.choice(
            (f"https://{rng.choice(NAMES)}:{url_password(rng)}@git.shop.vn/app", f"password={password(rng)}&x=1")
        ),
        safe="",
    )


def zero_width(rng: random.Random) -> str:
    value = github(rng)
    cut = rng.randint(2, len(value) - 2)
    return value[:cut] + rng.choice(("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad")) + value[cut:]


def full_width(rng: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in aws_id(rng))


def card(rng: random.Random) -> str:
    body = rng.choice(("4", "51", "55", "37", "6011"))
    body += pick(rng, string.digits, (14 if body == "37" else 15) - len(body))
    total = sum(sum(divmod(int(d) * (2 - i % 2), 10)) for i, d in enumerate(reversed(body)))
    number = body + str(-total % 10)
    if len(number) == 16 and rng.random() < 0.6:
        return rng.choice((" ", "-")).join(number[i : i + 4] for i in range(0, 16, 4))
    return number


def chinese_id(rng: random.Random) -> str:
    body = (
        rng.choice(("110105", "440306", "310115"))
        + f"19{rng.randint(60, 99)}{rng.randint(1, 12):02}{rng.randint(1, 28):02}"
    )
    body += pick(rng, string.digits, 3)
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return body + "10X98765432"[sum(int(d) * w for d, w in zip(body, weights, strict=True)) % 11]


def vietnamese_id(rng: random.Random) -> str:
    return (
        rng.choice(("001", "079", "048")) + rng.choice("0123") + f"{rng.randint(60, 99)}" + pick(rng, string.digits, 6)
    )


def vietnamese_phone(rng: random.Random) -> str:
    prefix = rng.choice(("90", "91", "38", "70", "86", "56"))
    rest = pick(rng, string.digits, 7)
    return rng.choice(
        (
            f"0{prefix}{rest}",
            f"+84{prefix}{rest}",
            f"+84 {prefix} {rest[:3]} {rest[3:]}",
            f"0{prefix}.{rest[:3]}.{rest[3:]}",
        )
    )


def chinese_phone(rng: random.Random) -> str:
    rest = pick(rng, string.digits, 8)
    return rng.choice((f"138{rest}", f"+86 159 {rest[:4]} {rest[4:]}", f"186-{rest[:4]}-{rest[4:]}", f"+86177{rest}"))


def american_phone(rng: random.Random) -> str:
    area, exchange, line = rng.choice(("415", "212", "737")), f"{rng.randint(221, 499)}", pick(rng, string.digits, 4)
    return rng.choice(
        (
            f"+1 {area} {exchange} {line}",
            f"({area}) {exchange}-{line}",
            f"+1{area}{exchange}{line}",
            f"{area}-{exchange}-{line}",
        )
    )


def email(rng: random.Random) -> str:
    return f"{rng.choice(NAMES)}{rng.choice(('', '.', '_'))}{pick(rng, string.ascii_lowercase, 5)}@{rng.choice(('gmail.com', 'fpt.com.vn', 'qq.com', 'mail.acme-shop.io'))}"


def internal_ip(rng: random.Random) -> str:
    a, b, c = (rng.randint(1, 250) for _ in range(3))
    return rng.choice(
        (
            f"10.{a}.{b}.{c}",
            f"192.168.{a}.{b}",
            f"172.{rng.randint(16, 31)}.{a}.{b}",
            f"100.{rng.randint(64, 127)}.{a}.{b}",
            f"169.254.{a}.{b}",
        )
    )


def internal_ip6(rng: random.Random) -> str:
    return rng.choice(
        (
            f"fd{pick(rng, HEX, 2)}:{pick(rng, HEX, 4)}:{pick(rng, HEX, 4)}::1",
            f"fe80::{pick(rng, HEX, 4)}:{pick(rng, HEX, 4)}:{pick(rng, HEX, 4)}",
        )
    )


def internal_host(rng: random.Random) -> str:
    return f"{rng.choice(('db', 'ci', 'mq', 'build'))}-{rng.randint(1, 40)}.{rng.choice(('prod', 'hn', 'core'))}.{rng.choice(('internal', 'corp', 'lan', 'intranet', 'local'))}"


def home(rng: random.Random) -> str:
    name = rng.choice(NAMES)
    return rng.choice(
        (f"/home/{name}", f"/Users/{name}", f"C:\\Users\\{name}", f"/home/{name}.{pick(rng, 'abcdef', 4)}")
    )


# --- fillers --------------------------------------------------------------------------------------------------------

NAMES = ("trang", "minh.le", "weiwei", "alice", "dvorak", "hongnhung", "svc_report", "oliver")
FILLERS: dict[str, Maker] = {
    "user": lambda rng: rng.choice(NAMES),
    "host": lambda rng: (
        f"{rng.choice(('pg', 'mq', 'cache'))}{rng.randint(1, 9)}.shop-{pick(rng, string.ascii_lowercase, 4)}.vn"
    ),
    "n": lambda rng: str(rng.randint(2, 99999)),
    "long": token("", "123456789", 19),
    "hex32": token("", HEX, 32),
    "hex40": token("", HEX, 40),
    "hex64": token("", HEX, 64),
    "hex12": token("", HEX, 12),
    "hex6": token("", HEX, 6),
    "HEX6": token("", "0123456789ABCDEF", 6),
    "uuid": lambda rng: "-".join(pick(rng, HEX, n) for n in (8, 4, 4, 4, 12)),
    "sri": lambda rng: rng.choice(("sha512-", "sha384-")) + base64.b64encode(rng.randbytes(64)).decode(),
    "sri256": lambda rng: "sha256-" + base64.b64encode(rng.randbytes(32)).decode(),
    "b64": lambda rng: base64.b64encode(rng.randbytes(90)).decode(),
    "line64": token("", BASE64, 64),
    "rsa": lambda rng: "AAAAB3NzaC1yc2EAAAADAQABAAABgQ" + pick(rng, BASE64, 342),
    "ed25519": lambda rng: "AAAAC3NzaC1lZDI1NTE5AAAAI" + pick(rng, BASE64, 43),
    "ident": lambda rng: rng.choice(("renderItem", "load_rows", "fetchPage", "toSlug", "build_index")),
    "Word": lambda rng: rng.choice(WORDS),
    "awsid": aws_id,
    "docip": lambda rng: f"{rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{rng.randint(1, 254)}",
    "docid": lambda _: "AKIAIOSFODNN7" + "EXAMPLE",
    "docsecret": lambda _: "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "pubpem": lambda _: "PUBLIC KEY",
}


# --- held out: written before the patterns, not to be used for tuning ----------------------------------------------

HELD_OUT_FRAMES = (
    "§",
    "Symptom: job fails after deploy «n».\n\n§\n\nRoot cause was a stale pod; restart fixed it.",
    "Gặp lỗi khi chạy trên máy build, cấu hình như sau:\n```\n§\n```\nĐã sửa bằng cách nâng phiên bản.",
    "环境配置如下\n\n~~~\n§\n~~~\n升级依赖后恢复正常。",
    "1. open the file\n2. it had\n       §\n3. reload",
)

HELD_OUT_SECRETS = (
    Family(
        "aws-access-key",
        aws_id,
        (
            '  provider "aws" {\n    access_key = "§"\n    region = "ap-southeast-1"\n  }',
            "InvalidClientTokenId for §: The security token included in the request is invalid",
            'new BasicAWSCredentials("§", secret)',
            "User name,Access key ID\n«user»,§",
        ),
    ),
    Family(
        "aws-secret-key",
        aws_secret,
        (
            "[default]\naws_access_key_id=«awsid»\naws_secret_access_key=§",
            "boto3.client('s3', aws_access_key_id='«awsid»', aws_secret_access_key='§')",
            "cloud:\n  aws:\n    credentials:\n      secretKey: §",
            'credentials: { accessKeyId: "«awsid»", secretAccessKey: "§" }',
        ),
    ),
    Family(
        "gcp-api-key",
        google_key,
        (
            '<script src="https://maps.googleapis.com/maps/api/js?key=§&libraries=places"></script>',
            '<meta-data android:name="com.google.android.geo.API_KEY" android:value="§"/>',
            "firebase.initializeApp({ apiKey: '§', projectId: 'shop-«n»' })",
        ),
    ),
    Family(
        "gcp-service-account",
        pem_escaped,
        (
            '{"type":"service_account","project_id":"shop-«n»","private_key_id":"«hex40»","private_key":"§\\n"}',
            'GOOGLE_CREDENTIALS=\'{"private_key": "§"}\'',
        ),
    ),
    Family(
        "azure-key",
        azure_key,
        (
            "DefaultEndpointsProtocol=https;AccountName=shop«n»;AccountKey=§;EndpointSuffix=core.windows.net",
            "az storage blob upload --account-name shop«n» --account-key §",
            "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=§",
        ),
    ),
    Family(
        "azure-sas",
        lambda rng: quote(base64.b64encode(rng.randbytes(32)).decode(), safe=""),
        (
            "https://shop.blob.core.windows.net/c/f.csv?sv=2022-11-02&se=2025-01-01T00%3A00%3A00Z&sr=b&sp=r&sig=§",
            "SharedAccessSignature sr=hub.azure-devices.net%2Fdevices%2Fd1&sig=§&se=17«n»",
        ),
    ),
    Family(
        "github-token",
        github,
        (
            "git clone https://x-access-token:§@github.com/acme/web.git",
            "remote: Invalid username or password for token §",
            'curl -H "Authorization: token §" https://api.github.com/user',
            "machine github.com login «user» password §",
        ),
    ),
    Family(
        "gitlab-token",
        gitlab,
        (
            'curl --header "PRIVATE-TOKEN: §" "https://gitlab.com/api/v4/projects"',
            "glab auth login --token §",
            "pip install --index-url https://__token__:§@gitlab.com/api/v4/projects/«n»/packages/pypi/simple x",
        ),
    ),
    Family("slack-token", slack, ("WebClient(token='§')", "slack:\n  bot: §", "invalid_auth ... tok=§ (channel #ops)")),
    Family("slack-webhook", slack_hook, ("curl -X POST -d '{}' §", "notify.url=§")),
    Family("discord-token", discord, ("client.login('§');", 'bot.run("§")', "DISCORD: §")),
    Family("discord-webhook", discord_hook, ("requests.post('§', json=payload)", "hook -> §")),
    Family(
        "telegram-token",
        telegram,
        ("GET https://api.telegram.org/bot§/getUpdates 409 Conflict", "Application.builder().token('§').build()"),
    ),
    Family("stripe-key", stripe, ("Stripe::Client.new('§')", "curl https://api.stripe.com/v1/charges -u §:", "key §")),
    Family("stripe-webhook", stripe_hook, ("stripe.webhooks.constructEvent(body, sig, '§')",)),
    Family("twilio-key", twilio, ("TWILIO_API_KEY_SID=§", "Client('§', secret, account)")),
    Family("sendgrid-key", sendgrid, ("sgMail.setApiKey('§')", "smtp: {user: apikey, pass: §}")),
    Family(
        "mailgun-key", mailgun, ("curl -s --user 'api:§' https://api.mailgun.net/v3/x/messages", "mg = Mailgun('§')")
    ),
    Family("npm-token", npm, ("//npm.example.test/:_authToken=§", "npm ERR! 401 token § expired")),
    Family(
        "pypi-token", pypi, ("[pypi]\n  username = __token__\n  password = §", "twine upload -u __token__ -p § dist/*")
    ),
    Family(
        "huggingface-token",
        hugging_face,
        ("huggingface-cli login --token §", "AutoModel.from_pretrained(m, token='§')"),
    ),
    Family(
        "openai-key",
        openai,
        (
            "client = OpenAI(api_key='§')",
            "Incorrect API key provided: §. You can find yours in the dashboard",
            "export OPENAI=§",
        ),
    ),
    Family("anthropic-key", anthropic, ("x-api-key: §", "anthropic:\n   key: '§'", "llm keys set anthropic --value §")),
    Family(
        "google-oauth", google_oauth, ("gcloud ... --access-token-file <(echo §)", '"client_secret":"§"', "gtoken §")
    ),
    Family("shopify-token", shopify, ("X-Shopify-Access-Token: §", "shop.session('§')")),
    Family("square-token", square, ("accessToken: '§', // square", 'SquareClient(access_token="§")')),
    Family("databricks-token", databricks, ("databricks configure --token <<< §", "spark.conf.set('t', '§')")),
    Family("vault-token", vault, ("vault login §", "X-Vault-Token: §")),
    Family("doppler-token", doppler, ("doppler run --token=§ -- node app.js", "DT=§")),
    Family("figma-token", figma, ("X-Figma-Token: §", "figma.Client('§')")),
    Family("digitalocean-token", digital_ocean, ("doctl auth init -t §", 'provider "digitalocean" { token = "§" }')),
    Family("alibaba-key", alibaba, ("new OSS({ accessKeyId: '§' })", "ak = §")),
    Family("tencent-key", tencent, ("credential.Credential('§', sk)", "secret-id: §")),
    Family("kho-key", kho, ("kho doctor --key §", "Authorization: Bearer §")),
    Family(
        "other-service-token",
        other_service,
        ("login with §", "set('k', '§')", "cfg.value: §", "echo § | tool login --stdin"),
    ),
    Family(
        "jwt", jwt, ("localStorage.setItem('session', '§')", "wscat -c 'wss://x.shop.vn/ws?jwt=§'", "got § from /login")
    ),
    Family(
        "private-key",
        pem,
        ("cat ~/.ssh/id_rsa\n§", "tls.key: |\n§\n", "const key = `§`;\nsign(payload, key)"),
    ),
    Family("pgp-private-key", pgp, ("gpg --export-secret-keys --armor > k.asc\n§",)),
    Family(
        "password-in-url",
        url_password,
        (
            "SQLALCHEMY_DATABASE_URI = 'mysql+pymysql://shop:§@«host»:3306/shop?charset=utf8mb4'",
            "could not connect to mongodb+srv://«user»:§@cluster0.ab1cd.mongodb.net/?retryWrites=true",
            "CELERY_BROKER_URL: amqps://«user»:§@«host»/vh",
            "redis-cli -u redis://:§@«host»:6379/0 ping",
            "rsync over ftp://«user»:§@«host»/pub",
            "http_proxy=http://«user»:§@«host»:8080",
            "clickhouse://default:§@«host»:9000/default",
            "ldap bind via ldaps://cn=admin:§@«host»",
        ),
    ),
    Family(
        "connection-string",
        strong_password,
        (
            "Server=tcp:«host»,1433;Initial Catalog=shop;User ID=«user»;Password=§;Encrypt=True;",
            "Driver={ODBC Driver 18 for SQL Server};Server=«host»;UID=«user»;PWD=§",
            "psycopg.connect('host=«host» dbname=shop user=«user» password=§ sslmode=require')",
            "jdbc:mysql://«host»:3306/shop?user=«user»&password=§&useSSL=true",
            "jdbc:oracle:thin:«user»/§@//«host»:1521/ORCL",
            "«host»:5432:shop:«user»:§  # .pgpass",
            "Data Source=«host»;User Id=«user»;Password=§;Pooling=false",
        ),
    ),
    Family(
        "assignment-code",
        password,
        (
            "DATABASES = {'default': {'USER': '«user»', 'PASSWORD': '§', 'HOST': '«host»'}}",
            "const dbPass = '§';",
            'private static final String KEYSTORE_PASSWORD = "§";',
            "define( 'DB_PASSWORD', '§' );",
            'let smtp_password: &str = "§";',
            'var adminPwd = "§"',
            "@db_password = '§'",
            "mysqli_connect('«host»', '«user»', $password = '§');",
            'cfg.Password = "§"',
            'setPassword("§")',
            'conn = pymssql.connect(server="«host»", user="«user»", password="§")',
            'auth=("«user»", "§")',
            'if (pwd === "§") { login() }',
        ),
    ),
    Family(
        "assignment-config",
        password,
        (
            "spring.datasource.password=§",
            "smtp:\n  host: «host»\n  user: «user»\n  passwd: §",
            '{"user": "«user»", "pass": "§", "port": 465}',
            "ENV MYSQL_ROOT_PASSWORD=§",
            "environment:\n  - POSTGRES_PASSWORD=§\n  - TZ=Asia/Ho_Chi_Minh",
            '<add key="SmtpPassword" value="§" />',
            "<password>§</password>",
            "ansible_become_pass: §",
            "requirepass §",
            '[mail]\nMAIL_PASS="§"',
            "rabbitmq.default_pass = §",
            "export PGPASSWORD='§'",
            '$env:ADMIN_PASSWORD = "§"',
            'wifi psk="§"',
            "passphrase: §",
        ),
    ),
    Family(
        "assignment-token",
        opaque,
        (
            "SECRET_KEY = '§'",
            "JWT_SECRET=§",
            "app.use(session({ secret: '§', resave: false }))",
            "client_secret: §",
            'NEXTAUTH_SECRET="§"',
            "encryption_key = §",
            '"apiToken" : "§"',
            "consumer_secret='§'",
            'hmacKey := []byte("§")',
            "x.refreshToken = '§'",
            "APP_KEY=base64:§",
            "secret_access_key = §",
            "export CLOUDFLARE_API_TOKEN=§",
            "datadog.apiKey=§",
            "sonar.login=§",
            'webhook_secret: "§"',
            "storageSigningKey: §",
        ),
    ),
    Family(
        "command-line",
        password,
        (
            "sshpass -p '§' ssh «user»@«host»",
            "mysqldump -u root -p§ shop > dump.sql",
            "docker login -u «user» -p § registry.shop.vn",
            "redis-cli -h «host» -a § info",
            "curl -u «user»:§ https://«host»/api",
            "kubectl create secret generic db --from-literal=password=§",
            "wget --user=«user» --password=§ https://«host»/f.tgz",
            "keytool -genkey -storepass § -alias app",
            "mongosh --host «host» -u «user» --password '§'",
            "openssl rsa -in k.pem -passin pass:§",
            "echo '§' | sudo -S systemctl restart nginx",
            "smbclient //«host»/share -U «user»%§",
            "PGPASSWORD=§ psql -h «host» -U «user» shop",
        ),
    ),
    Family(
        "sql",
        password,
        (
            "ALTER USER '«user»'@'%' IDENTIFIED BY '§';",
            "CREATE ROLE «user» LOGIN PASSWORD '§';",
            "SET PASSWORD FOR 'root'@'localhost' = PASSWORD('§');",
        ),
    ),
    Family(
        "header",
        opaque,
        (
            "headers = {'Authorization': 'Bearer §'}",
            "> authorization: Bearer §\n> accept: */*",
            "X-API-Key: §",
            "X-Auth-Token: §",
            "Cookie: theme=dark; sessionid=§; lang=vi",
            "Set-Cookie: JSESSIONID=§; Path=/; HttpOnly",
            "xhr.setRequestHeader('Authorization', 'Bearer §')",
            "https://api.shop.vn/v1/items?access_token=§&page=2",
            "POST /hook?api_key=§ HTTP/1.1",
        ),
    ),
    Family(
        "basic-auth",
        basic,
        ("Authorization: Basic §", '"auths": {"registry.shop.vn": {"auth": "§"}}', "Proxy-Authorization: Basic §"),
    ),
    Family(
        "kubernetes-secret",
        lambda rng: base64.b64encode(strong_password(rng).encode()).decode(),
        (
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\ndata:\n  password: §\n",
            "kind: Secret\ndata:\n  username: YWRtaW4=\n  db-root: §\n",
        ),
    ),
    Family(
        "said-in-vietnamese",
        password,
        (
            "mật khẩu database là § nhé anh",
            "Tài khoản: «user» / Mật khẩu: §",
            "pass đăng nhập: §",
            "mk wifi công ty: §",
            "đổi mật khẩu root thành `§` rồi khởi động lại",
        ),
    ),
    Family("vietnamese-key", opaque, ("khóa API: §", "khoá bí mật là §", "mã truy cập = §")),
    Family(
        "said-in-chinese",
        password,
        ("数据库密码是 §，不要外传", "账号：«user» 密码：§", "用户口令: §", "登录密码为§", "root密码改成了 §"),
    ),
    Family("chinese-key", opaque, ("访问密钥：§", "令牌=§", '私钥 "§"', "API密钥为：§")),
    Family(
        "said-in-english",
        password,
        (
            "the root password is § on all boxes",
            "login: «user» / password: §",
            "Use these credentials: «user» / §",
            "pw: §",
            'I set the passphrase to "§" and it worked',
        ),
    ),
    Family("english-key", opaque, ("our API key is §", "here's the token: §", "secret -> §", "| api_key | § |")),
    Family("base64-blob", wrapped_base64, ("envFile: §", "echo § | base64 -d > .env", "blob\n§\nend")),
    Family("percent-encoded", wrapped_percent, ("https://ci.shop.vn/build?repo=§", "callback=§")),
    Family("zero-width", zero_width, ("token §", "copied: §.")),
    Family("full-width", full_width, ("key §", "编号：§")),
)

HELD_OUT_PERSONAL = (
    Family(
        "email", email, ("reported by «user» <§>", "git config user.email §", "mail tới § để xin quyền", "联系人：§")
    ),
    Family("phone-vn", vietnamese_phone, ("Gọi anh Minh § khi lỗi", "hotline §", "sđt: §")),
    Family("phone-cn", chinese_phone, ("手机号：§", "打电话 § 找小王", "tel=§")),
    Family("phone-us", american_phone, ("call the on-call at §", "phone: §")),
    Family("card", card, ("charge failed for card §", "PAN=§ exp 12/27", "thẻ § bị từ chối")),
    Family("id-cn", chinese_id, ("身份证：§", "idcard=§")),
    Family("id-vn", vietnamese_id, ("số CCCD § của khách", "CMND/CCCD: §", "căn cước công dân §")),
    Family(
        "internal-ip",
        internal_ip,
        ("ssh root@§", "upstream § timed out", "dial tcp §:5432: connect: connection refused"),
    ),
    Family("internal-ipv6", internal_ip6, ("ping6 §", "listen [§]:443")),
    Family("internal-host", internal_host, ("curl https://§/health", "getaddrinfo ENOTFOUND §", "nối tới § bị chậm")),
    Family("home-path", home, ("FileNotFoundError: '§/app/.env'", "at Object.<anonymous> (§/src/x.js:3:1)", "cd §")),
)

HELD_OUT_HARMLESS: dict[str, tuple[str, ...]] = {
    "placeholder": (
        "password: <your-password>",
        "API_KEY=YOUR_API_KEY_HERE",
        "token = 'xxxxxxxxxxxxxxxxxxxxxxxx'",
        "secret: ********",
        "DB_PASSWORD=changeme",
        "Authorization: Bearer <token>",
        "postgres://user:password@localhost:5432/app",
        "mysql -u root -p[password]",
        "api_key: 'REPLACE_ME'",
        "password = '...'",
        "client_secret=INSERT-SECRET-HERE",
    ),
    "variable": (
        "password: ${DB_PASSWORD}",
        "export TOKEN=$GITHUB_TOKEN",
        "PASSWORD: {{ vault_db_password }}",
        "token: ${{ secrets.NPM_TOKEN }}",
        "redis://:${REDIS_PASSWORD}@cache:6379",
        "curl -u $USER:$PASS https://api.shop.vn",
        "password=%DB_PASS%",
        'Authorization: "Bearer " + accessToken',
        "PGPASSWORD=$(cat /run/secrets/pg) psql",
        "{{- .Values.auth.password | b64enc }}",
    ),
    "env-lookup": (
        "const apiKey = process.env.STRIPE_KEY;",
        "password = os.environ['DB_PASSWORD']",
        'secret := os.Getenv("APP_SECRET")',
        "token = ENV.fetch('TOKEN')",
        'var key = System.getenv("API_KEY");',
        "SECRET_KEY = env('SECRET_KEY', default=None)",
        "api_key = settings.OPENAI_API_KEY",
        "password = config.get('db', 'password')",
        'let token = std::env::var("TOKEN").unwrap();',
        "apiKey: import.meta.env.VITE_API_KEY,",
    ),
    "call": (
        "token = await self.auth.get_access_token(user)",
        "password = getpass.getpass('Password: ')",
        "const secret = crypto.randomBytes(32).toString('hex')",
        "api_key = generate_key(length=32)",
        "hashed = bcrypt.hash(password, 10)",
        "csrf_token = request.cookies.get('csrftoken')",
        'val token = prefs.getString("token", null)',
        "String password = passwordField.getText();",
    ),
    "type-annotation": (
        "def login(username: str, password: str) -> Token: ...",
        "interface Auth { token: string; secret?: string | undefined }",
        "password = models.CharField(max_length=128)",
        "api_key: Optional[SecretStr] = None",
        "private String password;",
        "token: &'a str,",
        'ApiKey string `json:"api_key"`',
        "password VARCHAR(255) NOT NULL,",
    ),
    "code": (
        "max_tokens=4096, temperature=0.2",
        "progressToken: params._meta?.progressToken",
        "<li key={item.id}>{item.name}</li>",
        "if token.type == TokenType.IDENT: return self.«ident»()",
        "tokens = tokenizer.encode(text); pad_token_id = 50256",
        "primary_key=True, foreign_key='shop.id'",
        "for key, value in sorted(mapping.items()): print(key)",
        "const keyCode = event.keyCode; // 13",
        "nextPageToken = response.data.nextPageToken",
        "sort_key = lambda row: row.created_at",
        "secretName: db-credentials",
        "passwordField.classList.add('is-invalid')",
        'data-key="menu-item-«n»"',
        "cache_key = f'{tenant}:{user_id}:v2'",
        "keyboard.press('Control+KeyA')",
    ),
    "uuid": (
        "request id «uuid» failed",
        "session «uuid» closed",
        "tenant_key: «uuid»",
        '{"id":"«uuid»","token_type":"bearer"}',
    ),
    "git-hash": (
        "fixed in commit «hex40»",
        "HEAD is now at «hex12» bump",
        "index «hex12»..«hex12» 100644",
        "rev: «hex40»",
    ),
    "digest": (
        "sha256:«hex64»",
        "md5sum: «hex32»  app.tgz",
        "FROM node:20@sha256:«hex64»",
        "--hash=sha256:«hex64» \\",
        'ETag: "«hex32»"',
    ),
    "integrity": (
        '"integrity": "«sri»"',
        "  integrity «sri»",
        '<script src="a.js" integrity="«sri»" crossorigin="anonymous"></script>',
        '{path = "x", checksum = "«hex64»"}',
        "h1:«sri256» go.sum",
    ),
    "data-uri": (
        "background: url(data:image/png;base64,«b64»«b64»)",
        '<img src="data:image/svg+xml;base64,«b64»«b64»«b64»">',
    ),
    "documentation-ip": (
        "ping «docip»",
        "curl http://«docip»:8080/",
        "route 2001:db8::«hex6»/64 via «docip»",
        "bind 127.0.0.1:8000 and ::1",
    ),
    "public-key": (
        "ssh-rsa «rsa» deploy",
        "ssh-ed25519 «ed25519» ci",
        "-----BEGIN «pubpem»-----\n«line64»\n«line64»\n-----END «pubpem»-----",
        "-----BEGIN CERTIFICATE-----\n«line64»\n«line64»\n«line64»\n-----END CERTIFICATE-----",
        "github.com ssh-ed25519 «ed25519»",
    ),
    "documentation-key": ("aws_access_key_id = «docid»", "aws_secret_access_key = «docsecret»"),
    "minified": (
        '!function(e,t){"object"==typeof exports?t(exports):t((e=self).r={})}(this,function(e){var t=e.key,n=e.token;return t&&n})',
        "var a=function(t){return t.password?t.password.length>8:!1},b=a({password:e.value});",
        ".t{color:#«hex6»;background:#«HEX6»}.k>.p{margin:0 0 4px}",
    ),
    "trace": (
        'Traceback (most recent call last):\n  File "/usr/lib/python3.11/ssl.py", line «n», in wrap\n    raise ValueError(token)\nValueError: bad token',
        "\tat com.shop.auth.TokenFilter.doFilter(TokenFilter.java:«n»)\n\tat java.base/java.lang.Thread.run(Thread.java:840)",
        "goroutine «n» [running]:\nmain.main()\n\t/app/main.go:«n» +0x1d4",
        'psycopg.OperationalError: FATAL: password authentication failed for user "app"',
        "jwt.exceptions.ExpiredSignatureError: Signature has expired",
        "Error: secretOrPrivateKey must have a value",
    ),
    "prose-en": (
        "Reset the password and try again; the token had expired overnight.",
        "The API key is read from the environment, so no secret is stored.",
        "Passwords: must be at least 12 characters long.",
        "Password is required. Token is invalid. Secret was not found.",
        "The password is hashed with argon2id before it is stored.",
        "Basic authentication is disabled; Bearer tokens are required.",
        "Secret: the trick is to restart twice.",
        "the access token is refreshed every 15 minutes",
    ),
    "prose-vi": (
        "Mật khẩu bị sai nên không đăng nhập được.",
        "Khóa API được đọc từ biến môi trường.",
        "mật khẩu phải có ít nhất tám ký tự",
        "Mật khẩu: không được để trống",
        "mã truy cập hết hạn sau 15 phút",
    ),
    "prose-zh": (
        "密码错误，请重新输入。",
        "密钥从环境变量读取，不要写入代码。",
        "密码：不能为空",
        "令牌过期后需要重新登录",
        "用户密码是加密存储的",
    ),
    "version": (
        "upgrade to 2.31.0-rc.1+build.«n»",
        "node v20.11.1, npm 10.2.4",
        "numpy==1.26.4 ; python_version >= '3.11'",
        "macOS 10.15.7 release",
    ),
    "time": (
        "2024-11-05T08:31:22.123456Z start",
        "took 00:12:41.334 total",
        "epoch 1731312000123",
        "date=20241105 123000",
    ),
    "number": (
        "order «long» not found",
        "rows=«n»«n»",
        "offset 9007199254740991",
        "id: 1«long»",
        "pi 3.14159265358979323846",
    ),
    "colour": ("color: #«hex6»;", "--brand: #«HEX6»80;", "rgba(12, 34, 56, .5)"),
    "url": (
        "https://docs.python.org/3/library/re.html#re.Pattern.fullmatch",
        "https://shop.vn/p?id=«n»&utm_source=mail&sort=price",
        "git@github.com:acme/web.git",
        "see https://medium.com/@someone/how-tokens-work-«hex12»",
        "npm i @scope/pkg@1.2.3 left-pad@latest",
    ),
    "address": (
        "noreply@github.com",
        "user@example.com and ops@example.org",
        "admin@shop.test",
        "@decorator(name) def f(): ...",
        "xxx@yyy.com",
    ),
    "path": (
        "/home/runner/work/app",
        "/usr/local/lib/node_modules/token/index.js",
        "C:\\Windows\\System32\\drivers",
        "~/.ssh/id_rsa.pub",
        "/home/<user>/app",
    ),
    "log": (
        'level=info msg="token refreshed" user_id=«n» ttl=900s',
        "secret/db-password created",
        "kubectl get secret db -o yaml",
        "Successfully rotated key vault secret (version «hex32»)",
        "container «hex64» exited",
    ),
}


# --- tuned: look at these while changing a rule ---------------------------------------------------------------------

TUNED_FRAMES = (
    "§",
    "After the upgrade the worker stopped.\n§\nFixed by pinning the driver.",
    "```yaml\n§\n```",
    "Nguyên nhân:\n§\nGiải pháp: xoá cache.",
    "问题描述：服务启动失败\n§\n解决：重启",
    "> §",
)

TUNED_SECRETS = (
    Family(
        "aws-access-key",
        aws_id,
        ("AWS_ACCESS_KEY_ID=§", "aws configure set aws_access_key_id §", "key id § was leaked"),
    ),
    Family(
        "aws-secret-key",
        aws_secret,
        (
            "AWS_SECRET_ACCESS_KEY=§",
            "aws configure set aws_secret_access_key §",
            '"SecretAccessKey": "§"',
            "«awsid»\n§",
        ),
    ),
    Family("gcp-api-key", google_key, ("GOOGLE_API_KEY=§", "key=§", '"api_key": [{"current_key": "§"}]')),
    Family("gcp-service-account", pem_escaped, ('"private_key": "§\\n", "client_email": "x"', 'PRIVATE_KEY="§"')),
    Family("azure-key", azure_key, ("AccountName=a;AccountKey=§", "AZURE_STORAGE_KEY=§")),
    Family(
        "azure-sas",
        lambda rng: quote(base64.b64encode(rng.randbytes(32)).decode(), safe=""),
        ("?sv=2021-08-06&ss=b&sig=§", "&sig=§&x=1"),
    ),
    Family("github-token", github, ("GITHUB_TOKEN=§", "token: §", "https://«user»:§@github.com/a/b")),
    Family("gitlab-token", gitlab, ("GITLAB_TOKEN: §", "https://oauth2:§@gitlab.com/a/b.git")),
    Family("slack-token", slack, ("SLACK_BOT_TOKEN=§", "Authorization: Bearer §")),
    Family("slack-webhook", slack_hook, ("SLACK_URL=§", "post to §")),
    Family("discord-token", discord, ("TOKEN = '§'", 'const t = "§"')),
    Family("discord-webhook", discord_hook, ("url: §",)),
    Family("telegram-token", telegram, ("TELEGRAM_BOT_TOKEN=§", "bot = telebot.TeleBot('§')")),
    Family("stripe-key", stripe, ("stripe.api_key = '§'", "STRIPE=§")),
    Family("stripe-webhook", stripe_hook, ("STRIPE_WEBHOOK_SECRET=§",)),
    Family("twilio-key", twilio, ("sid: §", "twilio §")),
    Family("sendgrid-key", sendgrid, ("SENDGRID_API_KEY=§", "use § for mail")),
    Family("mailgun-key", mailgun, ("MAILGUN_KEY=§", "api:§")),
    Family("npm-token", npm, ("NPM_TOKEN=§", "_authToken=§")),
    Family("pypi-token", pypi, ("TWINE_PASSWORD=§", "password: §")),
    Family("huggingface-token", hugging_face, ("HF_TOKEN=§", "login('§')")),
    Family("openai-key", openai, ("OPENAI_API_KEY=§", 'openai.api_key = "§"', "key § no quota")),
    Family("anthropic-key", anthropic, ("ANTHROPIC_API_KEY=§", "Anthropic(api_key='§')")),
    Family("google-oauth", google_oauth, ("access_token: §", "Bearer §")),
    Family("shopify-token", shopify, ("SHOPIFY=§",)),
    Family("square-token", square, ("SQUARE_ACCESS_TOKEN=§",)),
    Family("databricks-token", databricks, ("DATABRICKS_TOKEN=§", "Bearer §")),
    Family("vault-token", vault, ("VAULT_TOKEN=§",)),
    Family("doppler-token", doppler, ("DOPPLER_TOKEN=§",)),
    Family("figma-token", figma, ("FIGMA=§",)),
    Family("digitalocean-token", digital_ocean, ("DO_TOKEN=§",)),
    Family("alibaba-key", alibaba, ("ALIBABA_CLOUD_ACCESS_KEY_ID=§", "id §")),
    Family("tencent-key", tencent, ("TENCENTCLOUD_SECRET_ID=§", "SecretId: '§'")),
    Family("kho-key", kho, ("KHO_KEY=§", "key §")),
    Family("other-service-token", other_service, ("API_TOKEN=§", "use §", "x: '§'")),
    Family("jwt", jwt, ("Authorization: Bearer §", "id_token=§", "cookie §")),
    Family("private-key", pem, ("§", "key:\n§")),
    Family("pgp-private-key", pgp, ("§",)),
    Family(
        "password-in-url",
        url_password,
        (
            "DATABASE_URL=postgres://app:§@«host»:5432/app",
            "postgresql+asyncpg://«user»:§@«host»/x",
            "mongodb://«user»:§@«host»:27017/admin",
            "redis://default:§@«host»:6379",
            "amqp://«user»:§@«host»:5672/",
            "https://«user»:§@«host»/svn",
            "sftp://«user»:§@«host»",
        ),
    ),
    Family(
        "connection-string",
        strong_password,
        (
            "Server=«host»;Database=shop;User Id=«user»;Password=§;",
            "DSN=x;UID=«user»;PWD=§;",
            "host=«host» port=5432 user=«user» password=§",
            "jdbc:postgresql://«host»/shop?user=«user»&password=§",
            "sqlplus «user»/§@//«host»:1521/XE",
            "«host»:*:*:«user»:§",
        ),
    ),
    Family(
        "assignment-code",
        password,
        (
            'password = "§"',
            "PASSWORD = '§'",
            'db_password = "§"',
            "const password = '§'",
            'String password = "§";',
            "$password = '§';",
            'password := "§"',
            "connect(host, user, password='§')",
            "'password' => '§',",
            'static let userPassword = "§"',
            "login('«user»', password: '§')",
            'if password == "§":',
        ),
    ),
    Family(
        "assignment-config",
        password,
        (
            "DB_PASSWORD=§",
            "password: §",
            "  db_pass: '§'",
            '"password": "§"',
            "db.password=§",
            "export ADMIN_PASSWORD=§",
            'MYSQL_PASSWORD: "§"',
            "<dbPassword>§</dbPassword>",
            "password=§",
            "passwd = §",
            "set PASSWORD=§",
            '<property name="password" value="§"/>',
        ),
    ),
    Family(
        "assignment-token",
        opaque,
        (
            "API_KEY=§",
            "api_key = '§'",
            '"token": "§"',
            "access_token: §",
            'secret: "§"',
            'auth_token = "§"',
            "const apiKey = '§'",
            "SECRET=§",
            "private_key: §",
            "signing_secret='§'",
            "ACCESS_KEY: §",
            'appSecret = "§"',
        ),
    ),
    Family(
        "command-line",
        password,
        (
            "mysql -u root -p§",
            "mysql -h «host» -u «user» -p'§' shop",
            "tool login --password §",
            "tool --password=§ run",
            "cli --user «user» --pass '§'",
            "curl --user «user»:§ https://«host»",
            "sshpass -p § scp a b",
            "redis-cli -a §",
            "htpasswd -bc f «user» §",
        ),
    ),
    Family("sql", password, ("CREATE USER «user» WITH PASSWORD '§';", "GRANT ALL ON *.* TO a IDENTIFIED BY '§'")),
    Family(
        "header",
        opaque,
        (
            "Authorization: Bearer §",
            "-H 'Authorization: Bearer §'",
            "x-api-key: §",
            "Cookie: session=§",
            "Set-Cookie: sid=§; Secure",
            "?api_key=§",
            "&token=§",
            "Authorization: Token §",
        ),
    ),
    Family("basic-auth", basic, ("Authorization: Basic §", '{"auth": "§"}', '-H "authorization: basic §"')),
    Family(
        "kubernetes-secret",
        lambda rng: base64.b64encode(strong_password(rng).encode()).decode(),
        ("kind: Secret\nmetadata:\n  name: a\ndata:\n  password: §\n", "kind: Secret\ndata:\n  a.txt: §\n  b: YQ==\n"),
    ),
    Family(
        "said-in-vietnamese",
        password,
        ("mật khẩu: §", "Mật khẩu là §", "mat khau: §", 'mật khẩu mới: "§"', "tài khoản «user», mật khẩu §"),
    ),
    Family("vietnamese-key", opaque, ("khóa bí mật: §", "khóa API là §", "mã bí mật: §")),
    Family("said-in-chinese", password, ("密码：§", "密码是§", "密码: §", "口令=§", "用户名 «user» 密码 §")),
    Family("chinese-key", opaque, ("密钥=§", "密钥：§", "令牌: §", "访问令牌是 §")),
    Family(
        "said-in-english",
        password,
        ("password is §", "the password: §", "pass: §", "user «user» pass §", "with password '§'"),
    ),
    Family("english-key", opaque, ("the API key is §", "token: §", "secret is `§`", "access key = §")),
    Family("base64-blob", wrapped_base64, ("§", "data: §", "payload=§")),
    Family("percent-encoded", wrapped_percent, ("u=§", "redirect?to=§")),
    Family("zero-width", zero_width, ("§", "GITHUB=§")),
    Family("full-width", full_width, ("§", "id=§")),
)

TUNED_PERSONAL = (
    Family("email", email, ("contact §", "From: §", "email: '§'", "<§>")),
    Family("phone-vn", vietnamese_phone, ("điện thoại §", "phone=§", "liên hệ: §")),
    Family("phone-cn", chinese_phone, ("电话：§", "mobile: §")),
    Family("phone-us", american_phone, ("tel: §", "phone §")),
    Family("card", card, ("card number §", "卡号：§", "pay §")),
    Family("id-cn", chinese_id, ("身份证号 §", "id §")),
    Family("id-vn", vietnamese_id, ("CCCD: §", "căn cước §")),
    Family("internal-ip", internal_ip, ("host §", "http://§:8080/x", "§ refused")),
    Family("internal-ipv6", internal_ip6, ("addr §", "http://[§]/")),
    Family("internal-host", internal_host, ("host §", "https://§:8443/x", "ssh §")),
    Family("home-path", home, ("§/project/a.py", "open '§/x'", "in §")),
)

TUNED_HARMLESS: dict[str, tuple[str, ...]] = {
    "placeholder": (
        "api_key = '<your-api-key>'",
        "TOKEN=YOUR_TOKEN",
        "password: xxxx",
        "password=****",
        "password: changeme",
        "https://user:pass@host/db",
        "token: [REDACTED]",
        "secret = 'your-secret-here'",
        "Authorization: Bearer YOUR_ACCESS_TOKEN",
        'password: ""',
        "password = None",
        "mysql -u root -p",
        "--password <password>",
        "-u username:password",
    ),
    "variable": (
        "password=${PASS}",
        "password=$PASS",
        "password: {{ secret }}",
        "postgres://$USER:$PASS@host/db",
        "Authorization: Bearer ${TOKEN}",
        "f'Bearer {token}'",
        "`Bearer ${token}`",
        '--password "$PASS"',
        "f'postgres://{user}:{password}@{host}/db'",
        "password: !Ref DbPassword",
        '"%s:%s" % (user, password)',
    ),
    "env-lookup": (
        'key = os.environ["X_KEY"]',
        "apiKey: process.env.API_KEY",
        "token = os.getenv('TOKEN')",
        "api_key = settings.api_key",
        "password = self.password",
        "password: this.form.password,",
        "$password = $_POST['password'];",
        "secret = Rails.application.credentials.secret_key_base",
    ),
    "call": (
        "token = get_token()",
        "password = hash_password(raw)",
        "const token = jwt.sign(payload, secret)",
        "secret = secrets.token_hex(32)",
        "api_key = input('key: ')",
        "token = next(tokens)",
        "password = user.password or fallback",
    ),
    "type-annotation": (
        "password: str",
        "token: string;",
        "password?: string",
        "secret: bytes = b''",
        "password: string | null",
        "api_key: str = Field(...)",
        "password TEXT,",
        "char *password;",
    ),
    "code": (
        "progressToken",
        "max_tokens=4096",
        "key={item.id}",
        "token_count = 12345",
        "if (token === 'function') {",
        "tokenType = 'identifier'",
        "key = 'created_at'",
        "secretKeyRef:\n  name: db-secret\n  key: password",
        '<input type="password" name="password" id="password" placeholder="Enter password">',
        "passwordEncoder: BCryptPasswordEncoder",
        "label for password: Password",
        "errors.password = 'Password is required'",
        "token: 'next-page'",
        "public_key = load('a.pub')",
        "api_key_header = 'X-API-Key'",
        "password_min_length: 12",
        "token_url='/oauth/token'",
    ),
    "uuid": ("id=«uuid»", "trace «uuid»", "key: «uuid»"),
    "git-hash": ("commit «hex40»", "git checkout «hex12»", "sha: «hex40»"),
    "digest": ("sha256 «hex64»", "md5: «hex32»", "image@sha256:«hex64»"),
    "integrity": ("integrity: «sri»", '"integrity":"«sri»"', "checksum = «hex64»", "h1:«sri256»"),
    "data-uri": ('src="data:image/gif;base64,«b64»"', "url('data:font/woff2;base64,«b64»«b64»')"),
    "documentation-ip": (
        "host «docip»",
        "http://127.0.0.1:3000",
        "[2001:db8::1]:80",
        "0.0.0.0:80",
        "http://localhost:8080",
    ),
    "public-key": (
        "ssh-rsa «rsa»",
        "ssh-ed25519 «ed25519» x",
        "-----BEGIN «pubpem»-----\n«line64»\n-----END «pubpem»-----",
        "-----BEGIN CERTIFICATE-----\\n«line64»\\n«line64»\\n-----END CERTIFICATE-----",
    ),
    "documentation-key": ("«docid»", "AWS_SECRET_ACCESS_KEY=«docsecret»"),
    "minified": (
        "var n=t.token,r=t.key;n&&(r=n(r));",
        "(()=>{var e={d:(t,n)=>{for(var r in n)e.o(n,r)}}})();",
        ".a{color:#«hex6»}",
    ),
    "trace": (
        "  File \"/app/x.py\", line «n», in «ident»\n    password = conf['password']\nKeyError: 'password'",
        "Error: connect ECONNREFUSED 127.0.0.1:5432",
        "at Parser.nextToken (node_modules/acorn/dist/acorn.js:«n»:9)",
        "SyntaxError: Unexpected token < in JSON at position 0",
        "Access denied for user 'root'@'localhost' (using password: YES)",
    ),
    "prose-en": (
        "reset the password",
        "Password: the user has to type it twice",
        "the token is expired",
        "The secret is to keep functions small.",
        "password is incorrect, token is missing",
        "Use a strong password for the admin account.",
    ),
    "prose-vi": ("mật khẩu bị sai", "mật khẩu là bắt buộc", "quên mật khẩu thì bấm vào đây", "khóa API đã hết hạn"),
    "prose-zh": ("密码错误", "密码是必填项", "忘记密码请联系管理员", "密钥已过期"),
    "version": ("v1.2.3-beta.4", "python 3.11.4", "==2.0.0.post1"),
    "time": ("2025-01-20T10:30:00Z", "10:30:00", "1700000000"),
    "number": ("«long»", "id=12345678901234", "0.123456789012"),
    "colour": ("#«hex6»", "color:#«HEX6»"),
    "url": (
        "https://github.com/a/b/blob/main/token.py#L10",
        "ssh://git@github.com/a/b.git",
        "https://x.vn/?q=password+reset",
    ),
    "address": ("a@example.com", "no-reply@shop.vn", "git@gitlab.com:a/b.git", "you@your-domain.com"),
    "path": ("/home/user/app", "/Users/username/x", "/root/.ssh", "/usr/share", "C:\\Program Files\\x"),
    "log": ("token=OK status=200", "password changed", "auth: failed", "key=value"),
}


# --- the sets -------------------------------------------------------------------------------------------------------

FILLER = re.compile("«([A-Za-z0-9]+)»")
REPEATS = {"secret": 3, "personal": 4, "harmless": 3}


def fill(template: str, rng: random.Random) -> str:
    return FILLER.sub(lambda match: FILLERS[match[1]](rng), template)


def labelled(split: Split) -> list[Item]:
    """The items of one split; the same ones at every call."""
    held_out = split == "held_out"
    rng = random.Random(f"kho-{split}")
    frames = HELD_OUT_FRAMES if held_out else TUNED_FRAMES

    def framed(template: str) -> str:
        frame = rng.choice(frames)
        # Only the frame's own mark is replaced: the template may have one too.
        return fill(frame.replace("§", template, 1), rng)

    items: list[Item] = []
    groups: tuple[tuple[Label, tuple[Family, ...]], ...] = (
        ("secret", HELD_OUT_SECRETS if held_out else TUNED_SECRETS),
        ("personal", HELD_OUT_PERSONAL if held_out else TUNED_PERSONAL),
    )
    for label, families in groups:
        for family in families:
            for template in family.templates:
                for _ in range(REPEATS[label]):
                    value = family.make(rng)
                    items.append(Item(label, family.kind, framed(template).replace("§", value), value))
    harmless = HELD_OUT_HARMLESS if held_out else TUNED_HARMLESS
    for kind, templates in harmless.items():
        for template in templates:
            items.extend(Item("harmless", kind, framed(template)) for _ in range(REPEATS["harmless"]))
    return items
