package recipe

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that are generated from the table")

// TestGenerated compares what is generated from the table with the files in docs, or with -update
// writes them.
func TestGenerated(t *testing.T) {
	pages, err := filepath.Glob("../docs/kinds/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"../docs/recipe.schema.json": Schema()}
	marked := regexp.MustCompile(`(?s)(<!-- generated: ([a-z_. ]+) -->\n).*?(<!-- /generated -->)`)
	tables := docTables()
	for _, page := range append(pages, "../docs/recipe-format.md") {
		old, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		files[page] = marked.ReplaceAllFunc(old, func(part []byte) []byte {
			m := marked.FindSubmatch(part)
			table, ok := tables[string(m[2])]
			if !ok {
				t.Errorf("%s: there is no table %q, or another place has it", page, m[2])
			}
			delete(tables, string(m[2]))
			return []byte(string(m[1]) + table + string(m[3]))
		})
	}
	for name := range tables {
		t.Errorf("no page has the table %q", name)
	}
	for name, text := range files {
		if *update {
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Error(err)
			}
			continue
		}
		if old, err := os.ReadFile(name); err != nil || !bytes.Equal(old, text) {
			t.Errorf("%s is out of date: run go generate ./recipe (%v)", name, err)
		}
	}
}

// docTables returns the tables of the pages, by the names in its markers.
func docTables() map[string]string {
	tables := map[string]string{"kinds": kindTable(), "recipe kind": keyTable(bodyObject.keys), "agent task": keyTable(taskObject.keys),
		"tool of a recipe": keyTable(toolObject.keys)}
	for _, o := range []*object{topObject, requiresObject, defaultsObject, limitsObject, stepObject, foreachObject,
		outputObject, checkObject, onErrorObject, retryObject, rollbackObject, modelObject, messageObject, failObject, humanObject, sayObject, waitObject,
		loopObject, forkObject, switchObject, caseObject, sendObject, receiveObject, searchObject, indexObject, filesObject, documentObject, chunkObject, rerankObject,
		agentObject, memoryObject} {
		tables[o.name] = keyTable(o.keys)
	}
	return tables
}

func keyTable(keys []Argument) string {
	var b strings.Builder
	b.WriteString("| key | type | meaning |\n|---|---|---|\n")
	for _, key := range keys {
		name, typ, doc := "`"+key.Name+"`", key.Type, key.Doc
		if key.Required {
			name += "*"
		}
		if key.Allowed != nil {
			typ = "`" + strings.Join(key.Allowed, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, typ, doc)
	}
	return b.String()
}

func kindTable() string {
	var b strings.Builder
	b.WriteString("| kind | what it does | output |\n|---|---|---|\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, k.Doc, k.Output)
	}
	return b.String()
}
