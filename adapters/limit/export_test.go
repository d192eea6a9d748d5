package limit

import (
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
)

// ShareAs is Share by another process.
func ShareAs(m runtime.Model, store checkpoint.Documents, name, process string) {
	Share(m, store, name)
	limited, ok := m.(interface{ sharedBy(process string) })
	if ok {
		limited.sharedBy(process)
	}
}

func (m model) sharedBy(process string) { m.limiter.shared.process = process }
