package command

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/recipe"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  braise version --output json",
		Args:    exactly(0, "version takes no arguments"),
		RunE:    func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	v := version()
	if a.output != "human" {
		return a.printJSON(v)
	}
	fmt.Fprintln(a.stdout, v)
	return nil
}

// versionInfo is what the go command recorded when it built this one.
type versionInfo struct {
	Version  string `json:"version"`            // of a release v1.2.3; (devel) if nothing is known
	Commit   string `json:"commit,omitempty"`   // "" if built from a downloaded module, whose version names it
	Modified bool   `json:"modified,omitempty"` // the sources were not those of the commit
	Go       string `json:"go"`
	Format   string `json:"format"` // of recipes
}

func (v versionInfo) String() string {
	commit := ""
	if v.Commit != "" {
		commit = "commit " + v.Commit[:min(len(v.Commit), 12)] + ", "
	}
	if v.Modified {
		commit += "modified, "
	}
	return fmt.Sprintf("braise %s (%s%s, recipe format %s)", v.Version, commit, v.Go, v.Format)
}

func version() versionInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: cmp.Or(info.Main.Version, "(devel)"), Go: info.GoVersion, Format: recipe.APIVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
