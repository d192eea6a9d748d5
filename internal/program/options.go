package program

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// optionKeys are the options that only some models take, as steps and agents have them.
var optionKeys = []string{"top_p", "stop", "seed", "tool_choice", "reasoning"}

// ModelOptions reads the options of a step or an agent. If one has the wrong type, bad is its name, and want says what
// it must be.
func ModelOptions(fields map[string]any) (o runtime.ModelOptions, bad, want string) {
	if v := fields["top_p"]; v != nil {
		p, ok := Number(v)
		if !ok || p < 0 || p > 1 {
			return o, "top_p", "a number from 0 to 1"
		}
		o.TopP = &p
	}
	if v := fields["stop"]; v != nil {
		list, ok := v.([]any)
		for _, one := range list {
			text, isText := one.(string)
			ok = ok && isText && text != ""
			o.Stop = append(o.Stop, text)
		}
		if !ok {
			return o, "stop", "a list of texts"
		}
	}
	if v := fields["seed"]; v != nil {
		seed, ok := v.(int64)
		if !ok {
			return o, "seed", "an integer"
		}
		o.Seed = &seed
	}
	o.ToolChoice, _ = fields["tool_choice"].(string)
	if v := fields["reasoning"]; v != nil {
		reasoning, _ := v.(map[string]any)
		o.Reasoning, _ = reasoning["effort"].(string)
		if !slices.Contains(recipe.Efforts, o.Reasoning) {
			return o, "reasoning", "{effort: low, medium or high}"
		}
	}
	return o, "", ""
}

// optionsOf reads the options of an agent, which were checked when the recipe was read.
func optionsOf(spec map[string]any) (temperature *float64, o runtime.ModelOptions) {
	if t, ok := Number(spec["temperature"]); ok {
		temperature = &t
	}
	o, _, _ = ModelOptions(spec)
	return temperature, o
}

// needOptions notes the options that are given for a model, as OPTION MODEL.
func (s *stepCompiler) needOptions(model string, with *recipe.Value) {
	for _, key := range optionKeys {
		if f := with.Field(key); f != nil {
			s.need(useOption, key+" "+model, f.Value.Pos, s.path())
		}
	}
}

// needFiles notes the files that a step shows one of some models.
func (s *stepCompiler) needFiles(with *recipe.Value, models ...string) {
	files := []*recipe.Field{with.Field("images")}
	if f := with.Field("messages"); f != nil {
		for _, m := range f.Value.List {
			files = append(files, m.Field("files"))
		}
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		for _, model := range models {
			s.need(useOption, "files "+model, f.Value.Pos, s.path())
		}
		for _, item := range f.Value.List {
			text, _ := item.Scalar.(string)
			if value.IsPath(text) && !value.HoldsExpression(text) {
				s.need(usePort, FilesPort, item.Pos, s.path())
			}
		}
	}
}

// Files reads the files of a prompt or a message. The URL of a local file is its path, and it has no media type yet.
func Files(v any) ([]runtime.File, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("must be a list of files, not %s", value.TypeName(v))
	}
	var files []runtime.File
	for i, one := range list {
		text, _ := one.(string)
		media, err := value.FileType(text)
		if err != nil {
			return nil, fmt.Errorf("must be a list of files; number %d: %w", i+1, err)
		}
		files = append(files, runtime.File{URL: text, MediaType: media})
	}
	return files, nil
}

// checkToolChoice checks the tool that an agent must call, as checkNames does for approval.
func (c *compiler) checkToolChoice(a *recipe.Agent, l *agentloop.Loop, known []string) {
	choice := l.Options.ToolChoice
	words := []string{"", runtime.ToolsAuto, runtime.ToolsNone, runtime.ToolsRequired}
	if l.HasAllTools() || agentloop.Reserved(choice) || slices.Contains(slices.Concat(words, known), choice) {
		return
	}
	c.errorf(a.Spec.Field("tool_choice").Value.Pos, diagnostics.CodeUnknownTool, agentloop.SuggestTool(choice, known),
		"tool_choice names %q, which is not a tool of the agent", choice)
	c.lenient()
}
