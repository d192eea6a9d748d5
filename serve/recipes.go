package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// recipes returns the recipes that the person sees.
func (c *call) recipes() []Recipe {
	if c.Recipes == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Recipes()), func(r Recipe) bool { return !c.who.sees(r.Name) })
}

// named returns the recipe of the path.
func (c *call) named() (Recipe, error) {
	name, all := c.r.PathValue("name"), c.recipes()
	var names []string
	for _, r := range all {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Recipe{}, absent("recipe.unknown", "there is no recipe %.40q\n  hint: %s", name,
		suggest(name, names, "GET "+prefix+"/recipes has all"))
}

// entryOf returns the entry of a recipe. Its diagnostics have those that a run would begin with, if that is known here.
func (c *call) entryOf(r Recipe) recipeEntry {
	e := recipeEntry{Name: r.Name, Valid: r.Workflow != nil && !r.Diagnostics.HasErrors(),
		Diagnostics: append(diagnostics.List{}, r.Diagnostics...), Schedules: []schedule{},
		Triggers: append([]string{}, r.Triggers...)}
	now, _ := clock.Of(c.r.Context(), c.Store)
	for _, at := range r.Schedules {
		e.Schedules = append(e.Schedules, schedule{at.Name, at.Cron, cmp.Or(at.Zone, time.UTC).String(),
			at.Next(now).UTC()})
	}
	if r.Workflow == nil {
		return e
	}
	of := r.Workflow.Recipe()
	e.Digest, e.Version, e.Description = of.Digest, of.Version, of.Description
	if !c.Works(c.queue) {
		return e
	}
	found, _ := r.Workflow.Check(c.r.Context(), c.runtimeOf(r.Workflow)) // a start says what else is wrong
	for _, d := range found {
		known := func(o diagnostics.Diagnostic) bool { return o.String() == d.String() }
		if !slices.ContainsFunc(r.Diagnostics, known) {
			e.Diagnostics = append(e.Diagnostics, d)
		}
	}
	return e
}

func (c *call) listRecipes() error {
	list := recipeList{[]recipeEntry{}}
	for _, r := range c.recipes() {
		e := c.entryOf(r)
		sums, err := c.store.List(c.r.Context(), checkpoint.Filter{Recipe: r.Name, Limit: 1})
		switch {
		case len(sums) > 0:
			last := runOf(sums[0])
			e.Last = &last
		case err != nil:
			return err
		}
		list.Recipes = append(list.Recipes, e)
	}
	return c.reply(http.StatusOK, list)
}

func (c *call) showRecipe() error {
	r, err := c.named()
	if err != nil {
		return err
	}
	v := recipeView{recipeEntry: c.entryOf(r), Source: r.Source}
	if r.Workflow != nil {
		if v.Inputs, err = inputsOf(r.Workflow.Recipe()); err != nil {
			return err
		}
		if v.Plan, err = json.Marshal(r.Workflow.Plan()); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, v)
}

// inputsOf returns the JSON Schema of the inputs of a recipe, which are in the order of its text and have their
// defaults.
func inputsOf(r *recipe.Recipe) (json.RawMessage, error) {
	properties, required := []byte("{"), []string{}
	for i, in := range r.Inputs {
		of := maps.Clone(in.SchemaJSON)
		if text, _ := value.JSON(of); bytes.Contains(text, []byte(`"$ref"`)) {
			of = map[string]any{} // it has references into its own schema; the run checks it
		}
		if in.HasDefault {
			of["default"] = in.Default
		} else {
			required = append(required, in.Name)
		}
		name, err := value.JSON(in.Name)
		if err != nil {
			return nil, err
		}
		text, err := value.JSON(of)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			properties = append(properties, ',')
		}
		properties = slices.Concat(properties, name, []byte(":"), text)
	}
	return json.Marshal(map[string]any{"type": "object", "properties": json.RawMessage(append(properties, '}')),
		"required": required, "additionalProperties": false})
}

// planned returns the workflow of the digest in the path: of a recipe that can be started, or of a run.
func (c *call) planned() (*workflow.Workflow, error) {
	digest := c.r.PathValue("digest")
	for _, r := range c.recipes() {
		if r.Workflow != nil && r.Workflow.Recipe().Digest == digest {
			return r.Workflow, nil
		}
	}
	wf, err := c.compiled.Load(c.r.Context(), c.Store, digest)
	if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrInvalid) ||
		err == nil && !c.who.sees(wf.Name()) {
		return nil, absent("recipe.unknown", "no run has a recipe with the digest %.80q", digest)
	}
	return wf, err
}

func (c *call) showPlan() error {
	wf, err := c.planned()
	if err != nil {
		return err
	}
	if err := c.checkDraw(wf); err != nil {
		return err
	}
	if c.fresh(strconv.Quote(wf.Recipe().Digest)) {
		return nil
	}
	c.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	o := &workflow.DrawOptions{Direction: c.query.Get("dir"), Open: c.query["open"], Around: c.query.Get("around"),
		Hops: c.number("hops", 0)}
	switch c.query.Get("draw") {
	case "json":
		return c.reply(http.StatusOK, wf.Plan().Draw(o))
	case "svg":
		c.w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = c.w.Write(wf.Plan().Draw(o).SVG()) // who has left needs no answer
		return nil
	}
	return c.reply(http.StatusOK, wf.Plan())
}

// openNone is the parameter open that names no step.
const openNone = "."

// checkDraw refuses what a picture cannot show, and what is about a picture where none is asked for.
func (c *call) checkDraw(wf *workflow.Workflow) error {
	for _, name := range []string{"dir", "open", "around", "hops"} {
		if c.query.Has(name) && !c.query.Has("draw") {
			return malformed("request.parameter", "parameter %q is about a picture\n  hint: add draw=json or draw=svg",
				name)
		}
	}
	if c.query.Has("hops") && c.query.Get("around") == "" {
		return malformed("request.parameter", "parameter \"hops\" is about a neighbourhood\n  hint: add around=STEP")
	}
	ids := stepsOf(wf)
	for _, name := range []string{"open", "around"} {
		for _, step := range c.query[name] {
			if !slices.Contains(ids, workflow.PlanID(step)) && !(name == "open" && step == openNone) {
				return malformed("request.parameter", "parameter %q: recipe %q has no step %.80q\n  hint: %s", name,
					wf.Name(), step, suggest(workflow.PlanID(step), ids, "the plan, without draw, has all"))
			}
		}
	}
	return nil
}

// fresh sets the ETag, and answers a request for what has it already.
func (c *call) fresh(tag string) (done bool) {
	c.w.Header().Set("ETag", tag)
	c.w.Header().Set("Cache-Control", "private, no-cache")
	for known := range strings.SplitSeq(c.r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			c.w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}
