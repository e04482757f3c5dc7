"""Which addresses an outgoing call may dial. Addresses are judged, never spellings of hosts."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Where clouds hand out credentials to whoever asks. One of them (168.63.129.16) looks public.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.169.253",
        "169.254.169.123",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "169.254.42.42",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
    )
)

# Beside ``is_global``, which lets some of these pass and differs between versions of Python.
_DENIED = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
# All that is assigned to hosts of the internet. Loopback, unique local, link-local, site-local,
# multicast, discard, IPv4-compatible and 64:ff9b:1::/48 lie outside.
_GLOBAL_UNICAST = IPv6Network("2000::/3")

_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPolicy:
    """Public addresses, and what the operator allows besides; metadata addresses never."""

    allowed_networks: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        """Return whether a call may dial ``address``."""
        address = _bare(address)
        embedded = _embedded(address)
        if not _METADATA.isdisjoint((address, *embedded)):
            return False
        if any(address in network for network in self.allowed_networks):
            return True
        if address in _NAT64:
            # The way to an IPv4 host from a network that has only IPv6. An allowed network does
            # not count here: the gateway, not this host, would dial what is embedded.
            return all(_is_public(each) for each in embedded)
        return _is_public(address) and all(_is_public(each) for each in embedded)


def _bare(address: Address) -> Address:
    """Return the address without scope; the IPv4 one behind ``::ffff:0:0/96``."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that a gateway would take out of an IPv6 address."""
    if isinstance(address, IPv4Address):
        return ()
    if address in _NAT64 or address in _COMPATIBLE:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()


# A worker calls the same few receivers again and again, and to judge an address costs a dozen
# microseconds.
@lru_cache(maxsize=1024)
def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not any(address in network for network in _DENIED)
