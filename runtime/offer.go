package runtime

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// offer is a provider of one model or tool.
type offer struct {
	from     string // host, plugin or builtin
	provider string // what Runtime.Providers calls it: host, builtin or the plugin's key
	plugin   int    // its index, if it is one
}

// priorities are those of an offer's from.
var priorities = map[string]int{fromHost: 20, fromPlugin: 10, fromBuiltin: 0}

// String names the provider in a message.
func (o offer) String() string {
	switch o.from {
	case fromHost:
		return "the host"
	case fromPlugin:
		return fmt.Sprintf("plugin %q", o.provider)
	}
	return "Braise itself"
}

// hostOffer is what the host has under the name of t, nil for a model.
func hostOffer(t Tool) offer {
	if _, ok := t.(BuiltinTool); ok {
		return offer{from: fromBuiltin, provider: fromBuiltin}
	}
	return offer{from: fromHost, provider: fromHost}
}

// choose returns the offer that counts. There is at least one; those of plugins are in their order.
func (r *Resolution) choose(key string, offers []offer, choice string, explicit bool) offer {
	port, name, named := strings.Cut(key, ":")
	what := "a " + port
	if named {
		what = fmt.Sprintf("%s %q", port, name)
	}
	if explicit {
		var known []string
		for _, o := range offers {
			if o.provider == choice {
				return o
			}
			known = append(known, o.provider)
		}
		r.warn(diagnostics.CodeUnknownProvider, diagnostics.DidYouMean(choice, known),
			"%q is chosen for %s and does not offer it", choice, what)
	}
	best := offers[0]
	for _, o := range offers[1:] {
		if priorities[o.from] > priorities[best.from] {
			best = o
		}
	}
	for _, o := range offers {
		switch {
		case o == best:
		case o.from == best.from:
			r.warn(diagnostics.CodeProviderConflict,
				fmt.Sprintf("choose one: Runtime.Providers[%q] = %q", key, best.provider),
				"plugins %q and %q both offer %s, the first one's is used", best.provider, o.provider, what)
		case port == "tool":
			r.warn(diagnostics.CodeShadowedTool, "", "tool %q of %s is hidden by that of %s", name, o, best)
		}
	}
	return best
}
