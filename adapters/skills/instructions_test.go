package skills_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/braise-run/braise/adapters/skills"
)

func ExampleInstructions() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	web := filepath.Join(root, "web")
	if err := os.Mkdir(web, 0o700); err != nil {
		log.Fatal(err)
	}
	for dir, text := range map[string]string{root: "Be brief.", web: "No new dependencies."} {
		if err := os.WriteFile(filepath.Join(dir, skills.InstructionsFile), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	text, err := skills.Instructions(web, root).Instructions(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output:
	// From AGENTS.md:
	//
	// Be brief.
	//
	// From web/AGENTS.md:
	//
	// No new dependencies.
}
