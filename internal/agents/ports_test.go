package agents_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/runtime"
)

// conversations is a Memory with one conversation by thread; what a turn saved stands behind it.
type conversations map[string][]runtime.Message

func (c conversations) Load(_ context.Context, conv runtime.Conversation) ([]runtime.Message, error) {
	if conv.Thread == "broken" {
		return nil, errors.New("no memory")
	}
	return c[conv.Thread], nil
}

func (c conversations) Save(_ context.Context, conv runtime.Conversation, turn string, messages []runtime.Message) error {
	if conv.Thread == "full" {
		return errors.New("no room")
	}
	c[conv.Thread+" "+turn] = slices.Clone(messages)
	return nil
}

type panicking struct{ conversations }

func (panicking) Load(context.Context, runtime.Conversation) ([]runtime.Message, error) {
	panic("boo")
}

// documents is a Retriever that finds the same for every query, and counts.
type documents []runtime.Document

func (d *documents) Retrieve(_ context.Context, query string, _ int) ([]runtime.Document, error) {
	if query == "fail" {
		return nil, errors.New("no index")
	}
	return *d, nil
}

type skills []runtime.Skill

func (s skills) Load(context.Context, []string) ([]runtime.Skill, error) { return s, nil }

// sum is a hash of a skill's file.
func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

type noSkills struct{}

func (noSkills) Load(context.Context, []string) ([]runtime.Skill, error) {
	return nil, errors.New("the folder is gone")
}

type env string

func (e env) Instructions(context.Context) (string, error) { return string(e), nil }
func (env) Tools() []runtime.Tool                          { return nil }

// counting counts what a loop asks its ports for.
type counting struct {
	conversations
	n []string
}

func (c *counting) Load(ctx context.Context, conv runtime.Conversation) ([]runtime.Message, error) {
	c.n = append(c.n, "memory")
	return c.conversations.Load(ctx, conv)
}

func (c *counting) Retrieve(_ context.Context, query string, _ int) ([]runtime.Document, error) {
	c.n = append(c.n, "retrieve "+query)
	return []runtime.Document{{Text: "doc"}}, nil
}

func (c *counting) Instructions(context.Context) (string, error) {
	c.n = append(c.n, "instructions")
	return "rules", nil
}

func (c *counting) Tools() []runtime.Tool { return nil }

type approver func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error)

func (a approver) Approve(_ context.Context, w runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	return a(w)
}

// inbox hands out notes until they are taken.
type inbox struct {
	notes []runtime.Note
	taken []string
}

func (b *inbox) Waiting(context.Context, string, string) ([]runtime.Note, error) {
	return slices.Clone(b.notes), nil
}

func (b *inbox) Taken(_ context.Context, _, _ string, ids ...string) error {
	b.taken = append(b.taken, ids...)
	b.notes = slices.DeleteFunc(b.notes, func(n runtime.Note) bool { return slices.Contains(ids, n.ID) })
	return nil
}

type archive map[string]string

func (a archive) Put(_ context.Context, name, text string) error {
	if _, full := a["full"]; full {
		return errors.New("no room")
	}
	a[name] = text
	return nil
}

func (a archive) Get(_ context.Context, name string) (string, bool, error) {
	text, ok := a[name]
	return text, ok, nil
}
