package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

//go:generate go test -run TestGenerated . -update

// OpenAPI returns the description of the API, OpenAPI 3.1: docs/openapi.json.
func OpenAPI() []byte {
	s := &schemas{named: node{}}
	s.of(reflect.TypeFor[failure]())
	paths := node{}
	for _, r := range routes() {
		path, ok := paths[r.path].(node)
		if !ok {
			path = node{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = r.operation(s)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(node{
		"openapi": "3.1.0",
		"info": node{"title": "Braise", "version": "1",
			"license":     node{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Show, watch, answer, start, cancel and fork runs of recipes."},
		"paths": paths,
		"components": node{"schemas": s.named, "securitySchemes": node{
			"token": node{"type": "http", "scheme": "bearer", "description": "A token of the server."},
			"cookie": node{"type": "apiKey", "in": "cookie", "name": cookieName,
				"description": "What POST /api/v1/login sets."},
		}},
	})
	if err != nil {
		panic(err) // it is strings, numbers, lists and maps
	}
	return b.Bytes()
}

// operation describes a route.
func (r *route) operation(s *schemas) node {
	o := node{"operationId": r.name, "summary": r.about, "responses": node{}}
	if r.roles == nil {
		o["security"] = []any{}
	} else {
		o["security"] = []any{node{"token": []any{}}, node{"cookie": []any{}}}
		o["description"] = "Needs the role " + wordsOf(r.roles) + "."
	}
	var params []any
	for _, p := range r.params {
		params = append(params, p.described())
	}
	if params != nil {
		o["parameters"] = params
	}
	if r.takes != nil {
		o["requestBody"] = node{"content": node{"application/json": node{"schema": s.of(reflect.TypeOf(r.takes))}}}
	}
	responses := o["responses"].(node)
	for _, g := range r.gives {
		status := strconv.Itoa(g.status)
		response, ok := responses[status].(node)
		if !ok {
			response = node{"description": g.about}
			responses[status] = response
		}
		content, _ := response["content"].(node)
		if content == nil && (g.of != nil || g.media != "") {
			content = node{}
			response["content"] = content
		}
		before, twice := content["application/json"].(node)
		switch {
		case g.of != nil && twice:
			content["application/json"] = node{"schema": node{"anyOf": []any{before["schema"],
				s.of(reflect.TypeOf(g.of))}}}
		case g.of != nil:
			content["application/json"] = node{"schema": s.of(reflect.TypeOf(g.of))}
		case g.media != "":
			content[g.media] = node{"schema": node{"type": "string"}}
		}
	}
	for _, status := range r.statuses() {
		responses[strconv.Itoa(status)] = node{"description": http.StatusText(status),
			"content": node{"application/json": node{"schema": node{"$ref": "#/components/schemas/Failure"}}}}
	}
	return o
}

func (p *param) described() node {
	schema := p.schema
	if p.many {
		schema = node{"type": "array", "items": p.schema}
	}
	d := node{"name": p.name, "in": p.in, "description": p.about, "schema": schema}
	if p.in == "path" {
		d["required"] = true
	}
	return d
}

// Routes returns the tables of docs/api.md: what the routes are for, who may use them, what they take and answer.
func Routes() string {
	var b strings.Builder
	b.WriteString("| route | role | |\n|---|---|---|\n")
	all := routes()
	for _, r := range all {
		fmt.Fprintf(&b, "| [`%s %s`](#%s) | %s | %s |\n", r.method, r.path, strings.ToLower(r.name), r.role(), r.about)
	}
	for _, r := range all {
		fmt.Fprintf(&b, "\n### %s\n\n`%s %s`\n\n%s\n", r.name, r.method, r.path, r.about)
		r.writeParams(&b)
		fields(&b, "body", r.takes)
		b.WriteByte('\n')
		for _, g := range r.gives {
			fmt.Fprintf(&b, "- %d: %s\n", g.status, g.about)
		}
		if failed := r.fails; len(failed) > 0 {
			var list []string
			for _, status := range slices.Sorted(slices.Values(failed)) {
				list = append(list, strconv.Itoa(status))
			}
			fmt.Fprintf(&b, "- errors besides those of all routes: %s\n", strings.Join(list, ", "))
		}
	}
	return b.String()
}

func (r *route) role() string {
	if r.roles == nil {
		return "–"
	}
	var all []string
	for _, role := range r.roles {
		all = append(all, "`"+string(role)+"`")
	}
	return strings.Join(all, ", ")
}

func (r *route) writeParams(b *strings.Builder) {
	if len(r.params) == 0 {
		return
	}
	b.WriteString("\n| parameter | in | |\n|---|---|---|\n")
	for _, p := range r.params {
		about := p.about
		if words, ok := p.schema["enum"].([]any); ok {
			about += " One of " + code(words) + "."
		}
		if p.many {
			about += " May be repeated."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.name, p.in, about)
	}
}

func code(words []any) string {
	var list []string
	for _, w := range words {
		list = append(list, "`"+fmt.Sprint(w)+"`")
	}
	return strings.Join(list, ", ")
}

// fields writes the members of a body.
func fields(b *strings.Builder, what string, of any) {
	if of == nil {
		return
	}
	t := reflect.TypeOf(of)
	fmt.Fprintf(b, "\n| member of the %s | |\n|---|---|\n", what)
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		about := f.Tag.Get("doc")
		if !strings.Contains(options, "omit") {
			about = "(required) " + about
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.TrimSpace(about))
	}
}
