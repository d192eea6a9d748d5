package value

import (
	"net/netip"
	"strings"
)

// special are the blocks that are not for public hosts although netip calls them global unicast,
// from the IANA special-purpose address registries, and the metadata addresses of clouds that lie
// outside them.
var special = prefixes(
	"0.0.0.0/8",        // this network
	"100.64.0.0/10",    // carrier-grade NAT; Alibaba's metadata is 100.100.100.200
	"168.63.129.16/32", // Azure's host
	"192.0.0.0/24",     // protocol assignments; Oracle's metadata is 192.0.0.192
	"192.0.2.0/24",     // documentation, as the next two
	"198.51.100.0/24",  //
	"203.0.113.0/24",   //
	"192.88.99.0/24",   // 6to4 relays
	"198.18.0.0/15",    // benchmarks
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // protocol assignments, Teredo among them
	"2001:db8::/32",    // documentation, as the next
	"3fff::/20",        //
	"2002::/16",        // 6to4: an IPv4 address inside
)

var (
	global6 = netip.MustParsePrefix("2000::/3")     // all of IPv6 that is given to hosts
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address inside, reached through a gateway
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

// IsPublic reports whether ip is the address of a host on the public internet.
func IsPublic(ip netip.Addr) bool {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !global6.Contains(ip) {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// isLocal reports whether the host of a URL is this machine, or an address that is not of the public internet.
func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && !IsPublic(ip)
}
