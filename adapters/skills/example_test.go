package skills_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/braise-run/braise/adapters/skills"
	"github.com/braise-run/braise/runtime"
)

func ExampleFS() {
	files := fstest.MapFS{"refunds/SKILL.md": {Data: []byte(`---
name: refunds
description: What to pay back, and when.
allowed-tools: ledger.read
---
Pay back within 30 days.
`)}} // or an embed.FS; for a folder, see Dir
	var loader runtime.SkillLoader = skills.FS(files)

	loaded, err := loader.Load(context.Background(), []string{"refunds"})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range loaded {
		fmt.Println(s.Name, s.Path, s.SHA256[:8])
		fmt.Println(s.Text)
	}
	_, err = loader.Load(context.Background(), []string{"refund"})
	fmt.Println(err)
	// Output:
	// refunds refunds/SKILL.md c20d7c82
	// Pay back within 30 days.
	// skills: there is no skill "refund"
	//   hint: did you mean "refunds"?
}
