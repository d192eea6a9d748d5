package command

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
)

func (a *app) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the providers of models, what each can do, and the models that are configured",
		Long: "Models lists the providers that braise.yaml can name, with the environment variable that has the API\n" +
			"key and with what their models can do, and the models of braise.yaml. It calls nothing; braise doctor\n" +
			"--call asks the models.",
		Example: `  braise models
  braise models --output json`,
		Args: exactly(0, "models takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd.Context(), host.Options{})
			if err != nil {
				return a.refuse(nil, err)
			}
			defer s.close()
			list := modelList{Models: modelsOf(s.host.Bare())}
			for _, p := range providers {
				list.Providers = append(list.Providers, offer{p, p.Key != "" && os.Getenv(p.Key) != ""})
			}
			if a.output != "human" {
				return a.printJSON(list)
			}
			a.printModels(list)
			s.sayNone(s.host.NoConfig())
			return nil
		},
	}
}

// modelList is what models prints as JSON.
type modelList struct {
	Providers []offer `json:"providers"`
	Models    []model `json:"models"` // in the order of names
}

// offer is a provider as it can be used here.
type offer struct {
	provider
	KeySet bool `json:"keySet"` // the environment has a key
}

// model is a model that recipes can name.
type model struct {
	Name     string   `json:"name"`
	Provider string   `json:"provider"`           // script, or as traces name it; "": it cannot be used
	Model    string   `json:"model,omitempty"`    // as the provider names it
	Options  []string `json:"options"`            // that it takes, as recipes name them, and files
	Fallback []string `json:"fallback,omitempty"` // models that answer instead
	Batch    bool     `json:"batch,omitempty"`    // it answers in batches
	Price    *price   `json:"price,omitempty"`    // nil: braise.yaml has none
	Missing  string   `json:"missing,omitempty"`  // why it cannot be used
}

// price is in US dollars per million tokens. CachedRead and CacheWrite are 0 for the price of the input.
type price struct {
	Input      float64 `json:"input"`
	CachedRead float64 `json:"cachedRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
	Output     float64 `json:"output"`
}

func modelsOf(rt *runtime.Runtime) []model {
	list := []model{}
	for _, name := range slices.Sorted(maps.Keys(rt.Models)) {
		m := model{Name: name, Options: []string{}, Fallback: rt.Fallbacks[name]}
		if described, ok := rt.Models[name].(runtime.Described); ok {
			about := described.Metadata()
			m.Provider, m.Model, m.Missing = about.Provider, about.Model, about.Missing
			m.Options = append(m.Options, about.Options...)
		}
		if _, ok := rt.Models[name].(*script.Model); ok {
			m.Provider = "script"
		}
		_, m.Batch = rt.Models[name].(runtime.PolledModel)
		if p, ok := rt.Prices[name]; ok {
			m.Price = &price{p.Input, p.CachedRead, p.CacheWrite, p.Output}
		}
		list = append(list, m)
	}
	return list
}

func (a *app) printModels(list modelList) {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tKEY\tCAN")
	for _, p := range list.Providers {
		key := cmp.Or(p.Key, "none needed")
		if p.KeySet {
			key += " (set)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, key, strings.Join(p.Can, ", "))
	}
	w.Flush()
	if len(list.Models) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	fmt.Fprintln(w, "CONFIGURED\tPROVIDER\tMODEL\tPRICE PER MILLION TOKENS\tNOTE")
	for _, m := range list.Models {
		cost, note := "unknown", ""
		if m.Fallback != nil {
			note = "fallback: " + strings.Join(m.Fallback, ", ")
		}
		if m.Batch {
			note = strings.TrimSuffix("in batches; "+note, "; ")
		}
		if m.Price != nil {
			cost = terminal.Dollars(m.Price.Input) + " in, " + terminal.Dollars(m.Price.Output) + " out"
		}
		if m.Missing != "" {
			note, _, _ = strings.Cut(m.Missing, "\n")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", terminal.Visible(m.Name), cmp.Or(terminal.Visible(m.Provider), "-"),
			cmp.Or(terminal.Visible(m.Model), "-"), cost, cmp.Or(terminal.Visible(note), "-"))
	}
	w.Flush()
}
