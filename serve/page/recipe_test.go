package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/worker"
)

// The list says of each recipe whether it compiles, what begins it, and how its last run is.
func TestRecipes(t *testing.T) {
	broken := diagnostics.List{
		{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: "yaml.syntax", Message: `did not find "]"`, Hint: "close it",
			Position: diagnostics.Position{File: "wrong.yaml", Line: 2, Column: 4}},
		{Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: "step.unused", Message: "nobody reads it"},
	}
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, answers: dear, idle: true, change: func(o *serve.Server) {
		all := o.Recipes
		o.Recipes = func() []serve.Recipe {
			list := all()
			list[0].Schedules, list[0].Triggers = []worker.Schedule{{Name: "nightly", Cron: "0 2 * * *"}}, []string{"tickets"}
			return append(list, serve.Recipe{Name: "wrong", Diagnostics: broken, Source: "name: <b>wrong</b>\nsteps: [\n"})
		}
	}})
	b := s.open(olga, "#/recipes")
	b.sees("tbody tr:first-child", "Pays an order back.")
	b.sees("tbody tr:first-child", "nightly: 0 2 * * *")
	b.sees("tbody tr:first-child", "trigger tickets")
	b.sees("tbody tr:last-child", "invalid, 1 error, 1 warning")
	b.axe("recipes")
	id := s.run("refund", map[string]any{"order": 7})
	b.sees("tbody tr:first-child", "waiting") // the list is live
	b.keys("j" + kb.Enter)
	b.sees("h1", "refund")
	b.see(node("pay"))
	b.see("aside section") // the form that starts it
	b.press("Last runs")
	b.sees("tbody", id)
	b.sees("tbody", "waiting")
	b.axe("last runs")
	b.press("Schedules, triggers 2")
	b.sees(".view", "0 2 * * *")
	b.sees(".view", "POST /api/v1/hooks/tickets")
	b.sees(".view", "in ") // when it runs next
	b.axe("schedules")
	b.press("Inputs")
	b.sees("tbody", "integer")
	b.sees("tbody", `"none"`)
	b.axe("inputs")
	b.do(chromedp.Reload())
	b.sees("tbody", "integer")
	b.press("Source")
	b.sees("[data-line='2']", "name: refund")

	b.goTo("#/recipes/wrong")
	b.sees(".trouble", "It cannot be started.")
	b.gone("aside")
	b.press("What is wrong")
	b.sees("[data-line='1']", "name: <b>wrong</b>")
	b.sees("[data-line='2'] + .diagnostic", `did not find "]"`)
	b.sees("[data-line='2'] + .diagnostic", "hint: close it")
	b.sees("section .diagnostic:last-child", "nobody reads it")
	b.press("2:4")
	b.see("[data-line='2'].picked")
	b.goTo("#/recipes/none")
	b.sees("[role=alert]", "there is no recipe")
}
