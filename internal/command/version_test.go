package command

import (
	"runtime/debug"
	"testing"
)

// What the go command records is what the version says: of a release, of a module, of a working copy.
func TestVersion(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}},
			"braise v1.2.3 (commit 0123456789ab, go1.26.0, recipe format braise/v1)"},
		{"v1.2.3", nil, "braise v1.2.3 (go1.26.0, recipe format braise/v1)"},
		{"v1.2.4-0.20260102030405-0123456789ab+dirty",
			[]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}},
			"braise v1.2.4-0.20260102030405-0123456789ab+dirty (commit 0123456789ab, modified, go1.26.0, recipe format braise/v1)"},
		{"", nil, "braise (devel) (go1.26.0, recipe format braise/v1)"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: tt.version}, Settings: tt.settings}
		if got := versionOf(info).String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
