package main

import (
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
	fmt.Fprintf(a.stdout, "braise %s (%s, recipe format %s)\n", v.Version, v.Go, v.Format)
	return nil
}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Format  string `json:"format"`
}

func version() versionInfo {
	v := versionInfo{Version: "(devel)", Format: recipe.APIVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
	}
	return v
}
