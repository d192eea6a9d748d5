package builtin

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/braise-run/braise/internal/value"
)

// privateAddress is the refusal to connect to an address that is not public.
type privateAddress struct{ ip netip.Addr }

func (e privateAddress) Error() string {
	return fmt.Sprintf("%s is not a public address"+
		"\n  hint: a host allows it by tools.http.allow_private in braise.yaml", e.ip)
}

// refusePrivate is a net.Dialer.Control: it sees the address that is about to be connected to,
// after names are resolved and redirects followed, so nothing gets round it.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !value.IsPublic(to.Addr()) {
		return privateAddress{to.Addr()}
	}
	return nil
}
