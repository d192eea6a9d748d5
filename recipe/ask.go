package recipe

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// agentsFolder is where agents are beside a recipe.
const agentsFolder = "agents"

// askFile is what positions call the recipe that asks an agent.
const askFile = "ask.yaml"

// askRecipe is that recipe; %q is the agent.
const askRecipe = `apiVersion: ` + APIVersion + `
name: %[1]q
inputs: {prompt: string}
steps: {ask: {uses: agent, with: {agent: %[1]q, prompt: "${{ inputs.prompt }}"}}}
output: ${{ steps.ask.output.text }}
`

// LoadAgent makes a recipe that asks an agent in a Markdown file: its input is prompt, its output the agent's text.
// In a folder agents at the root of fsys the agent has the id that it has for recipes there, and the other agents as
// delegates; elsewhere its id is the name of its file, and it is alone. The error is that of [Load].
func (lib *Library) LoadAgent(fsys fs.FS, filename string) (*Recipe, error) {
	if lib == nil {
		lib = &Library{}
	}
	filename = path.Clean(filename)
	a := asked{files: tree{fsys, lib}, file: filename, agent: filename}
	if !strings.HasPrefix(filename, agentsFolder+"/") {
		a.agent, a.alone = agentsFolder+"/"+path.Base(filename), true
	}
	id := strings.TrimSuffix(strings.TrimPrefix(a.agent, agentsFolder+"/"), ".md")
	a.text = fmt.Appendf(nil, askRecipe, id)
	return load(a, askFile)
}

// asked is the files of a recipe that asks an agent.
type asked struct {
	files
	file  string // of the agent
	agent string // what a recipe knows the file by
	alone bool   // it is the only agent
	text  []byte // of askFile
}

func (a asked) has(name string) bool {
	return name == askFile || a.files.has(a.inside(name))
}

func (a asked) read(name string) ([]byte, error) {
	if name == askFile {
		return a.text, nil
	}
	return a.files.read(a.inside(name))
}

func (a asked) shown(name string) string {
	if name == askFile {
		return name
	}
	return a.files.shown(a.inside(name))
}

func (a asked) markdown(dir string, f func(name string)) error {
	if dir == agentsFolder && a.alone {
		f(a.agent)
		return nil
	}
	return a.files.markdown(dir, f)
}

// inside returns the name of a file in the file system.
func (a asked) inside(name string) string {
	if name == a.agent {
		return a.file
	}
	return name
}
