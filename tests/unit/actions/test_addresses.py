from ipaddress import ip_address, ip_network

import pytest

from shared.actions.addresses import AddressPolicy

REFUSED = {
    "unspecified": ["0.0.0.0", "::"],
    "this network": ["0.1.2.3"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1"],
    "unique local": ["fc00::1", "fd12:3456::1"],
    "shared": ["100.64.0.1", "100.127.255.254"],
    "link-local": ["169.254.1.1", "fe80::1", "fe80::1%eth0", "febf::1"],
    "site-local": ["fec0::1"],
    "protocol assignments": ["192.0.0.1", "192.0.0.170", "2001::1", "2001:2::1", "2001:10::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "benchmark": ["198.18.0.1", "198.19.255.254", "2001:2::1"],
    "6to4 relay": ["192.88.99.1"],
    "multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "4000::1", "5f00::1", "100::1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"],
    "compatible": ["::127.0.0.1", "::8.8.8.8"],
    "6to4": ["2002:7f00:1::1", "2002:a00:1::1", "2002:808:808::1"],
    "nat64": ["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::192.88.99.1"],
    "local nat64": ["64:ff9b:1::8.8.8.8"],
    "translated": ["::ffff:0:127.0.0.1"],
    "teredo": ["2001:0:7f00:1::1", "2001:0:808:808::f7f7:f7f7"],
    "metadata": [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:168.63.129.16",
        "64:ff9b::168.63.129.16",
        "64:ff9b::169.254.169.254",
    ],
}
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "198.20.0.1",
    "223.255.255.254",
    "2606:4700:4700::1111",
    "2a00:1450:4001::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"{kind} {text}") for kind in REFUSED for text in REFUSED[kind]]
)
def test_an_address_that_is_not_public_is_refused(text):
    assert not AddressPolicy().permits(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_permitted(text):
    assert AddressPolicy().permits(ip_address(text))


def test_an_operator_allows_a_network_and_no_other():
    policy = AddressPolicy(allowed_networks=(ip_network("10.1.0.0/16"), ip_network("fd00::/8")))

    assert policy.permits(ip_address("10.1.2.3"))
    assert policy.permits(ip_address("::ffff:10.1.2.3"))
    assert policy.permits(ip_address("fd00::1"))
    assert not policy.permits(ip_address("10.2.0.1"))
    assert not policy.permits(ip_address("fe80::1"))


def test_an_allowed_network_does_not_reach_through_a_gateway():
    policy = AddressPolicy(allowed_networks=(ip_network("10.1.0.0/16"),))

    assert not policy.permits(ip_address("64:ff9b::10.1.2.3"))
    assert not policy.permits(ip_address("2002:a01:203::1"))


@pytest.mark.parametrize("text", REFUSED["metadata"])
def test_metadata_addresses_cannot_be_allowed(text):
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))

    assert not AddressPolicy(allowed_networks=everything).permits(ip_address(text))


def test_metadata_embedded_in_an_allowed_network_stays_refused():
    policy = AddressPolicy(allowed_networks=(ip_network("2002::/16"), ip_network("::/96")))

    assert policy.permits(ip_address("2002:808:808::1"))
    assert not policy.permits(ip_address("2002:a9fe:a9fe::1"))
    assert not policy.permits(ip_address("::169.254.169.254"))
