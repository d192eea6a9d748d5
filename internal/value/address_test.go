package value

import (
	"net/netip"
	"testing"
)

func TestIsPublic(t *testing.T) {
	for _, tt := range []struct {
		ip   string
		want bool
	}{
		{"93.184.215.14", true},
		{"8.8.8.8", true},
		{"2606:2800:21f:cb07:6820:80da:af6b:8b2c", true},
		{"64:ff9b::808:808", true}, // 8.8.8.8 behind NAT64

		{"127.0.0.1", false},
		{"127.8.9.10", false},
		{"0.0.0.0", false},
		{"0.1.2.3", false},
		{"10.0.0.1", false},
		{"172.16.0.1", false},
		{"172.32.0.1", true},
		{"192.168.1.1", false},
		{"100.64.0.1", false},
		{"100.100.100.200", false}, // Alibaba
		{"100.128.0.1", true},
		{"169.254.169.254", false}, // AWS, GCP, Azure, …
		{"168.63.129.16", false},   // Azure
		{"192.0.0.192", false},     // Oracle
		{"198.18.0.1", false},
		{"224.0.0.1", false},
		{"240.0.0.1", false},
		{"255.255.255.255", false},
		{"::", false},
		{"::1", false},
		{"::7f00:1", false},         // IPv4-compatible
		{"::ffff:127.0.0.1", false}, // IPv4-mapped
		{"::ffff:8.8.8.8", true},
		{"64:ff9b::7f00:1", false},    // 127.0.0.1 behind NAT64
		{"64:ff9b::a9fe:a9fe", false}, // 169.254.169.254 behind NAT64
		{"64:ff9b:1::808:808", false}, // local NAT64
		{"2002:7f00:1::", false},      // 6to4
		{"2001:0:4136:e378::", false}, // Teredo
		{"fd00:ec2::254", false},      // AWS
		{"fc00::1", false},
		{"fe80::1", false},
		{"fe80::1%eth0", false},
		{"fec0::1", false},
		{"ff02::1", false},
		{"2001:db8::1", false},
	} {
		if got := IsPublic(netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("IsPublic(%s) = %t, want %t", tt.ip, got, tt.want)
		}
	}
}
