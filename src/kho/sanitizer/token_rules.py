"""Rules for secrets with a format of their own: keys and tokens of services, private keys.

The formats are those that the services publish, or that their keys visibly have.
"""

import base64
import binascii
import re

from kho.lib.lazy_regex import pattern as regex
from kho.sanitizer.heuristics import is_opaque, is_template, mean_run
from kho.sanitizer.rule import Rule, value_of

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
ID = f"{H}{{8}}(?:-{H}{{4}}){{3}}-{H}{{12}}"


def is_numbered(value: str) -> bool:
    """True for base64 of digits, a colon and random bytes."""
    try:
        number, colon, _ = base64.b64decode(value, validate=True).partition(b":")
    except binascii.Error:
        return False
    return bool(colon) and number.isdigit() and len(number) >= 10 and is_opaque(value[18:])


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
    *token("akamai-token", ("akab-", r"[a-z0-9]{16}-[a-z0-9]{16}(?!\.)")),
    *token("bitbucket-token", ("BBDC-", "[A-Za-z0-9+/]{40,50}={0,2}")),
    *token("cloudflare-token", *((f"{p}_", f"{A}{{40,60}}") for p in ("cfat", "cfut", "cfk"))),
    *token("cloudflare-token", ("v1.0-", f"{H}{{24}}-{H}{{140,150}}")),
    *token("dropbox-token", ("sl.", f"{U}{{60,300}}"), ("sl.u.", f"{U}{{60,1500}}")),
    *token("grafana-token", ("eyJrIjoi", "[A-Za-z0-9+/]{60,400}={0,3}")),
    *token("heroku-key", ("HRKU-", f"(?:AA{U}{{50,70}}|{U}{{36,70}})")),
    *token("nuget-key", ("oy2", "[a-z0-9]{43}")),
    *token("nats-seed", *((f"S{c}", "[A-Z2-7]{56}") for c in "UAONCX")),
    *token("salesforce-token", ("3MVG", r"[A-Za-z0-9._=]{60,120}"), ("00D", rf"{A}{{12,15}}![A-Za-z0-9_.]{{60,140}}")),
    *token("twitter-token", ("AAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{60,120}")),
    *token("ntlm-hash", ("TlRMTVNTUAADAAAA", "[A-Za-z0-9+/]{60,2000}={0,2}")),
    *token("instagram-token", ("IGQV", f"{U}{{60,300}}"), ("IGAA", f"{U}{{60,300}}")),
    *token("facebook-token", *((f"EAA{c}", f"{A}{{60,250}}") for c in "ACDEFGHIJKLMNOPQRSTUVWXYZ")),
    *token("tavily-key", ("tvly-", f"{U}{{20,60}}")),
    *token("posthog-key", *((f"ph{c}_", f"{A}{{36,50}}") for c in "xsa")),
    *token("llama-key", ("LLM|", rf"[0-9]{{8,20}}\|{U}{{20,40}}")),
    *token("clojars-token", ("CLOJARS_", "[a-z0-9]{60}")),
    *token("wundergraph-key", ("cosmo_", f"{H}{{32}}")),
    *token("vercel-token", *((f"vc{c}_", f"{A}{{20,60}}") for c in "pikar")),
    *token("paypal-token", ("access_token$production$", rf"[a-z0-9]{{16}}\${H}{{32}}")),
    *token(
        "onepassword-token", ("ops_", "[A-Za-z0-9+/_-]{100,1500}={0,2}"), ("A3-", "(?:[A-Z0-9]{5,6}-){5}[A-Z0-9]{5,6}")
    ),
    *token("amazon-mws", ("amzn.mws.", f"{ID}")),
    *token("artifactory-key", ("cmVmdGtu", f"{A}{{50,70}}")),
    *token("dnkey", ("dnkey-", f"{U}{{26}}-{U}{{52}}")),
    *token("adobe-secret", ("p8e-", f"{U}{{32}}")),
    *token("duffel-token", *((f"duffel_{m}_", f"{U}{{40,46}}") for m in ("live", "test"))),
    *token("flutterwave-key", ("FLWSECK", f"(?:_TEST)?-{A}{{12,40}}(?:-X)?")),
    *token("mapbox-token", ("sk.eyJ", rf"{U}{{60,200}}\.{U}{{20,40}}")),
    *token("prefect-token", ("pnu_", f"{A}{{36}}"), ("pnb_", f"{A}{{36}}")),
    *token("shippo-token", *((f"shippo_{m}_", f"{H}{{40}}") for m in ("live", "test"))),
    *token("yandex-key", ("AQVN", f"{U}{{35,40}}"), ("t1.9eu", f"{U}{{60,250}}")),
    *token("openshift-token", ("sha256~", f"{U}{{43}}")),
    *token("sourcegraph-token", ("sgp_", f"(?:{H}{{16}}_|local_)?{H}{{40}}")),
    *token("pinecone-key", ("pcsk_", f"{U}{{40,80}}")),
    *token("langfuse-key", ("sk-lf-", f"{ID}")),
    *token("langsmith-key", *((f"lsv2_{c}_", f"{H}{{32}}_{H}{{10}}") for c in ("pt", "sk"))),
    *token("nvidia-key", ("nvapi-", f"{U}{{50,80}}")),
    *token("elevenlabs-key", ("sk_", f"{H}{{48}}")),
    *token("cerebras-key", ("csk-", f"{A}{{40,60}}")),
    *token("fireworks-key", ("fw_", f"{A}{{20,40}}")),
    *token("contentful-token", ("CFPAT-", f"{U}{{43}}")),
    *token("hubspot-token", *((f"pat-{c}-", f"{ID}") for c in ("na1", "na2", "eu1"))),
    *token("typeform-token", ("tfp_", f"{U}{{40,70}}")),
    *token("plaid-token", *((f"access-{m}-", f"{ID}") for m in ("sandbox", "production"))),
    *token("razorpay-key", *((f"rzp_{m}_", f"{A}{{14}}") for m in ("live", "test"))),
    *token("circleci-token", ("CCIPAT_", f"{A}{{20,30}}_{H}{{40}}"), ("CCIPRJ_", f"{A}{{20,30}}_{H}{{40}}")),
    *token("asana-token", ("1/", "[0-9]{15,18}:[0-9a-f]{32}"), ("2/", "[0-9]{15,18}/[0-9]{15,18}:[0-9a-f]{32}")),
    *token("neon-key", ("napi_", f"{A}{{60,70}}")),
    *token("readme-key", ("rdme_", f"{A}{{70}}")),
    *token("telegram-session", ("1BQAN", f"{U}{{300,400}}")),
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
    Rule(  # the body of a private key without its header: PKCS 1 and PKCS 8 in DER
        "private-key",
        regex(
            r"(?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{3}IBA(?:AJ|AK|DAN)|MIICXAIBAAK|MHcCAQEE|MIGHAgEAMBMGByqGSM49)"
            r"[A-Za-z0-9+/=\s]{60,4000}"
        ),
        ("mii", "mhc", "mig"),
    ),
    Rule(  # base64 of twelve digits, a colon and twenty random bytes
        "atlassian-token",
        regex(r"(?<![A-Za-z0-9+])(?:[MNO][A-Za-z]{2}[A-Za-z0-9]){4}O[g-v][A-Za-z0-9+/]{26}(?![A-Za-z0-9+/=])"),
        ("o",),
        lambda match: is_numbered(match[0]),
        at_anchor=False,
    ),
    Rule(
        "dropbox-token",
        regex(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{11}AAAAAAAAAA[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
        ("aaaaaaaaaa",),
        not_documented,
        at_anchor=False,
    ),
    Rule(  # the private members of a JSON Web Key
        "json-web-key",
        regex(
            r"\"kty\\?\"\s{0,8}:[^{}\0]{1,4000}?\"(?:d|k|p|q|dp|dq|qi)\\?\"\s{0,8}:\s{0,8}\\?\"(?P<v>[A-Za-z0-9_-]{16,1200})"
        ),
        ('"kty',),
    ),
    Rule(
        "json-web-key",
        regex(r"\"(?:d|k)\\?\"\s{0,8}:\s{0,8}\\?\"(?P<v>[A-Za-z0-9_-]{16,1200})\\?\"[^{}\0]{1,4000}?\"kty"),
        ('"d"', '"k"', '"d\\', '"k\\'),
    ),
    Rule(
        "wecom-webhook",
        regex(
            r"https?://(?:qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key="
            r"|oapi\.dingtalk\.com/robot/send\?access_token="
            r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/)(?P<v>[A-Za-z0-9-]{30,80})"
        ),
        ("qyapi.weixin.qq.com/", "oapi.dingtalk.com/", "open.feishu.cn/", "open.larksuite.com/"),
        at_anchor=False,
    ),
    Rule(
        "otp-secret",
        regex(r"otpauth://[^\s\"'<>]{1,200}?[?&]secret=(?P<v>[A-Za-z2-7]{16,128})"),
        ("otpauth://",),
    ),
    Rule(  # a key as the bytes of an array
        "secret",
        regex(
            r"(?:key|secret)\w{0,20}(?:\[[^\]\n]{0,20}\])?[ \t]{0,4}=?[ \t]{0,4}(?:new byte\[\][ \t]?)?"
            r"[{\[](?P<v>[\sxX0-9a-fA-F,\\]{60,600})[}\]]",
            re.IGNORECASE,
        ),
        ("key", "secret"),
        lambda match: value_of(match).count(",") >= 15 and len(set(value_of(match).split(","))) >= 10,
    ),
]
