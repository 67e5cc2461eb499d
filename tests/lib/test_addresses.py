"""Which addresses may be called, by who named them, however they are spelt."""

import pytest

from kho.lib.addresses import AddressRefused, AddressRules, Allowed, NamedBy, is_public, parse, plain_host
from kho.lib.addresses import as_address as address

PUBLIC = """
    93.184.216.34 8.8.8.8 1.1.1.1 172.15.255.255 172.32.0.1 192.167.255.255 100.63.255.255 100.128.0.1 169.253.255.255
    198.17.255.255 198.20.0.1 223.255.255.255 11.0.0.1 126.255.255.255 128.0.0.1
    2606:2800:220:1:248:1893:25c8:1946 2a00:1450:4001::200e 2001:4860:4860::8888 2400:cb00::1 2001:200::1
    ::ffff:93.184.216.34 64:ff9b::93.184.216.34
""".split()
CLOSED = """
    127.0.0.1 127.8.8.8 127.255.255.255 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 192.168.255.255
    169.254.169.254 169.254.0.1 100.64.0.1 100.100.100.200 100.127.255.255 0.0.0.0 0.1.2.3 255.255.255.255 224.0.0.1
    239.255.255.250 240.0.0.1 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.31.196.1 192.52.193.1 192.175.48.1
    198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 168.63.129.16
    :: ::1 ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1
    fe80::1 fe80::1%eth0 febf::1 fec0::1 feff::1 fc00::1 fd00::1 fd00:ec2::254 ff00::1 ff02::1 ff0e::1
    64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::1 64:ff9b:1::8.8.8.8
    2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 2002:808:808:: 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
    2001:2::1 2001:10::1 2001:20::1 2001:db8::1 3fff::1 3fff:fff::1 100::1 100:0:0:1::1 5f00::1 400::1 4000::1 8000::1
    2606:2800:220:1:248:1893:25c8:1946%1
""".split()


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_on_the_open_internet(text: str) -> None:
    found = address(text)
    assert found is not None
    assert is_public(found)


@pytest.mark.parametrize("text", CLOSED)
def test_an_address_that_callers_may_not_name(text: str) -> None:
    found = address(text)
    assert found is not None
    assert not is_public(found)


def test_the_table_is_long() -> None:
    assert len({*PUBLIC, *CLOSED}) == len(PUBLIC) + len(CLOSED) >= 60


REFUSED = """
    ftp://open.example/ file:///etc/passwd gopher://open.example/ open.example //open.example/ javascript:alert(1)
    http:// http:///x http://[::1 http://::1]/ http://[::1]x/ http://x[::1]/ http://[127.0.0.1]/ http://[v1.x]/
    http://open.example:0/ http://open.example:99999/ http://open.example:x/ http://open.example:-1/
    http://user@open.example/ http://user:secret@open.example/ http://@open.example/ http://open.example@127.0.0.1/
    http://open.example\\@127.0.0.1/ http:\\\\127.0.0.1/ http://[fe80::1%25eth0]/ http://127.0.0.1%2eexample/
    http://2130706433/ http://0x7f000001/ http://0x7f.1/ http://127.1/ http://127.0.1/ http://0177.0.0.1/
    http://127.0.0.01/ http://127.0.0.0x1/ http://017700000001/ http://1.1.1.1.1/ http://a..example/ http://.example/
    http://a.example../ http://-a.example/ http://a,b.example/ http://a.example%00.b/ http://256.1.1.1/ http://1.2.3/
""".split()


@pytest.mark.parametrize(
    "url", ["", "http://open.example/\n", "http://op en.example/", "http://open.example/\t", *REFUSED]
)
@pytest.mark.parametrize("kind", NamedBy)
def test_what_is_no_plain_address_is_refused_whoever_names_it(kind: NamedBy, url: str) -> None:
    with pytest.raises(AddressRefused):
        AddressRules(kind).target(url)


INSIDE = """
    http://127.0.0.1/ http://127.0.0.1./ http://[::1]/ http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/ http://0.0.0.0/
    http://localhost/ http://LOCALHOST/ http://localhost./ http://a.localhost/ http://localhost.localdomain/
    http://printer.local/ http://metadata.google.internal/ http://intranet/ http://router.lan/ http://nas.home.arpa/
    http://169.254.169.254/latest/meta-data/ http://１２７.０.０.１/ http://127。0。0。1/ http://ⓛocalhost/ http://[fd00::1]/
    http://[64:ff9b::7f00:1]/ http://[2002:7f00:1::]/ http://[0:0:0:0:0:0:0:1]/ http://10.0.0.1:80/
""".split()


@pytest.mark.parametrize("url", INSIDE)
def test_what_the_text_tells_is_inside_is_refused_without_a_look_up(url: str) -> None:
    with pytest.raises(AddressRefused, match="open internet"):
        AddressRules(NamedBy.CALLER).target(url)
    assert AddressRules(NamedBy.OPERATOR).target(url)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://Open.Example", "http://open.example/"),
        ("https://open.example.:443/a?b=c#d", "https://open.example/a?b=c"),
        ("http://open.example:8080?q", "http://open.example:8080/?q"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/ü"),
        ("http://[2606:2800:0220:1::1]:81/", "http://[2606:2800:220:1::1]:81/"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
    ],
)
def test_one_form_of_each_address(url: str, canonical: str) -> None:
    assert AddressRules(NamedBy.CALLER).target(url).url == canonical


def test_ports() -> None:
    rules = AddressRules(NamedBy.CALLER, ports=frozenset({80, 443}))
    assert rules.target("https://open.example/").port == 443
    with pytest.raises(AddressRefused, match="Port 22 is not allowed; only 80, 443"):
        rules.target("http://open.example:22/")


def test_one_address_inside_is_enough_to_refuse_a_name() -> None:
    rules, target = AddressRules(NamedBy.CALLER), parse("http://open.example/")
    rules.check(target, ["93.184.216.34", "2606:2800:220:1::1"])
    for inside in ("10.0.0.7", "::1", "fe80::1%2", "nonsense"):
        for found in (["93.184.216.34", inside], [inside, "93.184.216.34"]):
            with pytest.raises(AddressRefused, match="open internet"):
                rules.check(target, found)
    AddressRules(NamedBy.OPERATOR).check(target, ["10.0.0.7"])


def test_an_operator_allows_hosts_and_networks() -> None:
    allowed = Allowed.of(["Hooks.Internal", "10.1.0.0/16", "127.0.0.1", "fd00:1::/32"])
    rules = AddressRules(NamedBy.CALLER, allowed, setting="KHO_X")
    for url in ("http://hooks.internal./x", "http://10.1.2.3/", "http://[::ffff:10.1.2.3]/", "http://[fd00:1::5]/"):
        rules.target(url)
    for url in ("http://other.internal/", "http://10.2.0.1/", "http://127.0.0.2/", "http://[fd00:2::5]/"):
        with pytest.raises(AddressRefused, match="The hub's operator can allow it in KHO_X"):
            rules.target(url)
    rules.check(parse("http://hooks.internal/"), ["192.168.7.7"])
    rules.check(parse("http://open.example/"), ["10.1.9.9"])
    with pytest.raises(AddressRefused):
        rules.check(parse("http://open.example/"), ["192.168.7.7"])


@pytest.mark.parametrize(
    "named", ["", "10.1.0.0/33", "10.1.0.5/16", "http://x.example", "a b", "127.1", "x.example:80"]
)
def test_what_cannot_be_allowed(named: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Allowed.of([named])


def test_hosts_of_any_length_and_letters_are_answered() -> None:
    assert plain_host("a" * 63 + ".example")
    for host in ("a" * 64 + ".example", "a." * 130 + "example", "\u202e.example", "xn--\u00e9.example"):
        with pytest.raises(AddressRefused):
            plain_host(host)
