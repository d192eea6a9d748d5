package page_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/internal/npmtest"
)

// theme shows the page as with a setting of the system: light or dark.
func (b *tab) theme(name string) {
	b.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params); err != nil {
		b.Fatal(err)
	}
}

// finding is what axe says about parts of a page.
type finding struct{ ID, Impact, Help, Nodes string }

// findings are what people with a disability cannot use, in a theme: what axe calls serious or critical.
func (b *tab) findings(theme string) (serious []finding) {
	b.Helper()
	text, err := os.ReadFile(npmtest.File(b, "axe-core", "4.14.1", "axe-core/axe.min.js"))
	if err != nil {
		b.Fatal(err)
	}
	b.theme(theme)
	b.do(chromedp.Evaluate[chromedp.Void](string(text)))
	for _, f := range value[[]finding](b, `axe.run({resultTypes: ['violations']}).then((r) => r.violations.map((v) => ({
		ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 5).map((n) => n.html + ' ' + n.failureSummary).join('\n')})))`) {
		if f.Impact == "serious" || f.Impact == "critical" {
			serious = append(serious, f)
		}
	}
	return serious
}

// axe fails the test if the page has findings, in either theme.
func (b *tab) axe(about string) {
	b.Helper()
	for _, theme := range []string{"light", "dark"} {
		for _, f := range b.findings(theme) {
			b.Errorf("%s, %s: %s", about, theme, strings.TrimSpace(fmt.Sprint(f.Impact, " ", f.ID, ": ", f.Help, "\n", f.Nodes)))
		}
	}
}

func TestEverybodyCanUseIt(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, answers: dear})
	s.open("", "").axe("login")
	b := s.open(olga, "#/runs")
	b.sees("h1", "Runs")
	b.axe("runs")
}
