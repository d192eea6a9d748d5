package host

import (
	"os/user"
	"slices"
	"sync"
)

// Groups returns the names under which the user of this process may be asked to answer a pause, beside user@host: that
// of the user, and those of the user's groups in the operating system, each once. nil: the system does not know the
// user.
func (h *Host) Groups() []string { return slices.Clone(groups()) }

var groups = sync.OnceValue(func() (names []string) {
	u, err := user.Current()
	if err != nil {
		return nil
	}
	names = append(names, u.Username)
	ids, _ := u.GroupIds()
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil && !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	return names
})
