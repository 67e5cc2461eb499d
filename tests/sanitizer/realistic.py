"""Texts as people and programs write them, with a secret inside or none: made anew from a seed.

Six forms (.env, YAML, JSON, code, logs, prose in three languages), each long enough to have much that is no secret
around: UUIDs, digests, git ids, base64 images, lock files.
"""

import base64
import random
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from labelled import (
    ALNUM,
    HEX,
    Item,
    Maker,
    alibaba,
    anthropic,
    aws_id,
    databricks,
    digital_ocean,
    discord,
    figma,
    github,
    gitlab,
    google_key,
    google_oauth,
    hugging_face,
    jwt,
    mailgun,
    npm,
    opaque,
    openai,
    password,
    pem,
    pick,
    pypi,
    sendgrid,
    shopify,
    slack,
    slack_hook,
    stripe,
    telegram,
    token,
    twilio,
    url_password,
    vault,
)

ALONE: dict[str, Maker] = {
    "aws-id": aws_id, "google": google_key, "google-oauth": google_oauth, "github": github, "gitlab": gitlab,
    "slack": slack, "slack-hook": slack_hook, "stripe": stripe, "twilio": twilio, "sendgrid": sendgrid,
    "mailgun": mailgun, "npm": npm, "pypi": pypi, "hugging-face": hugging_face, "openai": openai,
    "anthropic": anthropic, "shopify": shopify, "databricks": databricks, "vault": vault, "figma": figma,
    "digital-ocean": digital_ocean, "alibaba": alibaba, "telegram": telegram, "discord": discord, "jwt": jwt,
    "pem": pem, "cloudflare": token("cf" + "at_", ALNUM, 48), "akamai": lambda rng: (
        "ak" + "ab-" + pick(rng, "abcdefghijklmnop234567", 16) + "-" + pick(rng, "abcdefghijklmnop234567", 16)
    ), "nuget": token("oy" + "2", "abcdefghijklmnopqrstuvwxyz234567", 43), "nvidia": token("nv" + "api-", ALNUM, 64),
    "posthog": token("ph" + "x_", ALNUM, 40), "twitter": token("A" * 22, ALNUM, 80),
}  # fmt: skip
"""Kinds that are known by their form, whatever stands around them."""
NAMED: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "password": (password, ("db_password", "smtp_pass", "admin_password", "redis_password", "LDAP_BIND_PASSWORD")),
    "opaque": (
        opaque,
        ("api_key", "client_secret", "session_secret", "auth_token", "webhook_secret", "encryption_key"),
    ),
    "in-url": (
        lambda rng: f"postgres://app:{url_password(rng)}@db{rng.randint(1, 9)}.shop.vn:5432/app",
        ("database_url", "broker", "dsn"),
    ),
}
"""Kinds that need a name, and names that people give them."""

SERVICES = ("payment", "search", "mailer", "gateway", "billing", "inventory", "chat")
VI = (
    "Hôm qua cả nhóm chuyển dịch vụ {s} sang máy chủ mới, mất khoảng hai giờ.",
    "Sau khi khởi động lại, bảng điều khiển hiện lại bình thường và không mất dữ liệu.",
    "Anh Minh đã kiểm tra nhật ký, lỗi đến từ bộ nhớ đệm chứ không phải từ cơ sở dữ liệu.",
    "Nhớ đổi mật khẩu định kỳ và không gửi token qua chat.",
)
ZH = (
    "昨天我们把{s}服务迁移到了新的服务器，大约用了两个小时。",
    "重启之后监控恢复正常，没有丢失数据。",
    "小王检查了日志，问题出在缓存，而不是数据库。",
    "请定期更换密码，不要在群里发送密钥。",
)
EN = (
    "Yesterday we moved the {s} service to the new host, which took about two hours.",
    "After a restart the dashboard came back and nothing was lost.",
    "The log shows that the cache was stale; the password policy and token lifetime stay as they are.",
    "The API key is read from the environment, see the README for the name of the variable.",
)
SAID = {
    "vi": ("Mật khẩu là {v}", "token: {v}", "Khóa API: {v}", "chuỗi kết nối là {v}"),
    "zh": ("密码是 {v}", "令牌：{v}", "密钥：{v}", "token={v}"),
    "en": ("the password is {v}", "use the token {v}", "api key: {v}", "secret = {v}"),
}


def harmless_line(rng: random.Random) -> tuple[str, str]:
    """A name and a value that is no secret, though it looks random."""
    return rng.choice(
        (
            lambda: ("request_id", str(uuid.UUID(int=rng.getrandbits(128), version=4))),
            lambda: ("commit", pick(rng, HEX, 40)),
            lambda: ("sha256", pick(rng, HEX, 64)),
            lambda: ("integrity", "sha512-" + base64.b64encode(rng.randbytes(64)).decode()),
            lambda: ("image", "data:image/png;base64,iVBORw0KGgo" + base64.b64encode(rng.randbytes(300)).decode()),
            lambda: ("etag", f'W/"{pick(rng, HEX, 32)}"'),
            lambda: ("image_digest", f"nginx@sha256:{pick(rng, HEX, 64)}"),
            lambda: ("replicas", str(rng.randint(1, 9))),
            lambda: ("timeout", f"{rng.randint(1, 90)}s"),
            lambda: ("token_lifetime", str(rng.randint(60, 86400))),
            lambda: ("password_file", f"/run/secrets/{rng.choice(SERVICES)}"),
            lambda: ("api_key", "${API_KEY}"),
            lambda: (
                "url",
                f"https://{rng.choice(SERVICES)}.shop.vn/v{rng.randint(1, 3)}/items?page={rng.randint(1, 99)}",
            ),
        )
    )()


Form = Callable[[random.Random, list[tuple[str, str]]], str]


def dotenv(rng: random.Random, lines: list[tuple[str, str]]) -> str:
    return "# " + rng.choice(SERVICES) + "\n" + "\n".join(f"{name.upper()}={value}" for name, value in lines) + "\n"


def yaml(rng: random.Random, lines: list[tuple[str, str]]) -> str:
    inner = "\n".join(f'  {name}: "{value}"' for name, value in lines)
    return f"service: {rng.choice(SERVICES)}\nsettings:\n{inner}\n"


def json_text(rng: random.Random, lines: list[tuple[str, str]]) -> str:
    return "{\n" + ",\n".join(f'  "{name}": "{value}"' for name, value in lines) + "\n}\n"


def code(rng: random.Random, lines: list[tuple[str, str]]) -> str:
    body = "\n".join(f'    {name} = "{value}"' for name, value in lines)
    return (
        f"class Settings:\n{body}\n\n    def connect(self):\n        return Client(self, retries={rng.randint(1, 5)})\n"
    )


def log(rng: random.Random, lines: list[tuple[str, str]]) -> str:
    return "".join(
        f"2026-11-{rng.randint(1, 28):02} 09:{rng.randint(10, 59)}:07,{rng.randint(100, 999)} INFO "
        f"{rng.choice(SERVICES)}[{rng.randint(100, 9999)}] {name}={value}\n"
        for name, value in lines
    )


FORMS: dict[str, Form] = {"env": dotenv, "yaml": yaml, "json": json_text, "code": code, "log": log}
PROSE = {"vi": VI, "zh": ZH, "en": EN}


def prose(rng: random.Random, language: str, middle: str) -> str:
    told = [one.replace("{s}", rng.choice(SERVICES)) for one in rng.choices(PROSE[language], k=6)]
    told.insert(rng.randrange(len(told) + 1), middle)
    return (" " if language != "zh" else "\n").join(filter(None, told))


def secrets(seed: int, count: int) -> list[Item]:
    rng = random.Random(seed)
    items: list[Item] = []
    for n in range(count):
        kind = [*ALONE, *NAMED, *NAMED][n % (len(ALONE) + 2 * len(NAMED))]
        make, names = NAMED.get(kind) or (ALONE[kind], ("value", "credential", "key", "setting", "login"))
        value = make(rng)
        form = rng.choice([*FORMS, *(PROSE if "\n" not in value else ())])
        if form in FORMS:
            lines = [harmless_line(rng) for _ in range(rng.randint(3, 9))]
            lines.insert(rng.randrange(len(lines) + 1), (rng.choice(names), value))
            text = FORMS[form](rng, lines)
        else:
            said = SAID[form][0] if kind == "password" else rng.choice(SAID[form][1:3])
            text = prose(rng, form, said.replace("{v}", value))
        items.append(Item("secret", f"{kind} in {form}", text, value))
    return items


def clean(seed: int, count: int) -> list[Item]:
    rng = random.Random(seed)
    items: list[Item] = []
    for _ in range(count):
        form = rng.choice([*FORMS, *PROSE])
        if form in FORMS:
            text = FORMS[form](rng, [harmless_line(rng) for _ in range(rng.randint(4, 12))])
        else:
            text = prose(rng, form, "")
        items.append(Item("harmless", form, text))
    return items
