package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/yamlnode"
)

func ExampleConfigSchema() {
	var s struct {
		Title      string
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(host.ConfigSchema(), &s); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.Title + ": " + s.Properties["tools"].Description)
	// Output:
	// braise.yaml: What the built-in tools may do.
}

// The schema and ParseConfig are of one mind.
func TestConfigSchema(t *testing.T) {
	s, err := schema.Compile(host.ConfigSchema())
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	env := environ(map[string]string{"OPENAI_API_KEY": "sk-0123456789", "SOME": "script", "REGION": "eu", "WAIT": "3s", "STORE": "memory:", "TOKEN": "CRM_TOKEN",
		"SECRET": "0123456789abcdef", "CI_TOKEN": "0123456789abcdef", "HOOK_SECRET": "0123456789abcdef", "GITHUB_SECRET": "0123456789abcdef"})
	for _, tt := range []struct {
		text  string
		valid bool
	}{
		{string(documented), true},
		{`{}`, true},
		{`{models: {}, tools: {}, secrets: {}, limits: {}}`, true},
		{`models: {m: {provider: script, file: f.yaml}}`, true},
		{`models: {m: {provider: openai, model: x, base_url: "HTTP://localhost:1/v1", headers: {X-Title: t, X-Api-Key: "${OPENAI_API_KEY}"}, timeout: 1m30s, json_schema: false, provider_name: azure.ai.openai}}`, true},
		{`models: {m: {provider: "${SOME}", file: f.yaml}}`, true},
		{`models: {m: {provider: openai, model: x, max_parallel: 1, rpm: 60, tpm: 2147483647}}`, true},
		{`models: {m: {provider: openai, model: x, options: {temperature: 0, top_p: 0.9, top_k: 40, min_p: 0, presence_penalty: -2, frequency_penalty: 0.5, repetition_penalty: 1.1, seed: -1, stop: [END], reasoning: minimal, verbosity: low, service_tier: flex, parallel_tool_calls: false, extra: {num_ctx: 8192, a: {b: [1]}}}}}`, true},
		{`models: {m: {provider: openai, model: x, options: {service_tier: "${SOME}"}}}`, true},
		{`models: {m: {provider: openai, api: responses, model: x, options: {temperature: 0, top_p: 0.9, reasoning: minimal, reasoning_summary: auto, verbosity: low, service_tier: flex, parallel_tool_calls: false, extra: {truncation: auto}}}}`, true},
		{`models: {m: {provider: openai, api: chat, model: x}}`, false},
		{`models: {m: {provider: anthropic, api: responses, model: x}}`, false},
		{`models: {m: {provider: openai, images: false, model: x}}`, true},
		{`models: {m: {provider: openai, batch: true, model: x}}`, true},
		{`models: {m: {provider: openai, api: responses, batch: true, model: x}}`, true},
		{`models: {m: {provider: anthropic, batch: true, model: x}}`, true},
		{`models: {m: {provider: anthropic, batch: false, rpm: 5, model: x}}`, true},
		{`models: {m: {provider: anthropic, batch: "yes", model: x}}`, false},
		{`models: {m: {provider: openai, batch: true, rpm: 5, model: x}}`, false},
		{`models: {m: {provider: openai, batch: true, max_parallel: 5, model: x}}`, false},
		{`models: {m: {provider: openai, batch: true, tpm: 5, model: x}}`, false},
		{`models: {m: {provider: gemini, batch: true, model: x}}`, false},
		{`models: {m: {provider: script, batch: true, file: f.yaml}}`, false},
		{`models: {m: {provider: openai, images: "no", model: x}}`, false},
		{`models: {m: {provider: anthropic, images: false, model: x}}`, false},
		{`models: {m: {provider: script, api: responses, file: f.yaml}}`, false},
		{`models: {m: {provider: openai, api: responses, model: x, options: {seed: 1}}}`, false},
		{`models: {m: {provider: openai, api: responses, model: x, options: {reasoning_summary: long}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {reasoning_summary: auto}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {temprature: 1}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {max_tokens: 1}}}`, false},
		{`models: {m: {provider: anthropic, model: x, base_url: "http://localhost:1/v1", api_key: "${OPENAI_API_KEY}", headers: {anthropic-beta: b}, timeout: 1m, json_schema: false, provider_name: aws.bedrock, rpm: 1, fallback: [m2]}, m2: {provider: script, file: f}}`, true},
		{`models: {m: {provider: anthropic, model: x, options: {temperature: 1, top_p: 0.5, top_k: 1, stop: [a], reasoning: high, max_tokens: 100, service_tier: auto, parallel_tool_calls: false, extra: {metadata: {user_id: u}}}}}`, true},
		{`models: {m: {provider: anthropic, model: x, options: {temperature: 1.5}}}`, false},
		{`models: {m: {provider: anthropic, model: x, options: {seed: 1}}}`, false},
		{`models: {m: {provider: anthropic, model: x, options: {max_tokens: 0}}}`, false},
		{`models: {m: {provider: anthropic}}`, false},
		{`models: {m: {provider: anthropic, model: x, file: f}}`, false},
		{`models: {m: {provider: gemini, model: x, base_url: "http://localhost:1/v1beta", api_key: "${OPENAI_API_KEY}", headers: {X-Title: t}, timeout: 1m, json_schema: false, provider_name: gcp.vertex_ai, rpm: 1, fallback: [m2]}, m2: {provider: script, file: f}}`, true},
		{`models: {m: {provider: gemini, model: x, options: {temperature: 2, top_p: 0.5, top_k: 1, seed: 1, stop: [a], presence_penalty: 1, frequency_penalty: 1, reasoning: high, service_tier: flex, safety: {HARM_CATEGORY_HARASSMENT: BLOCK_NONE}, extra: {labels: {a: b}}}}}`, true},
		{`models: {m: {provider: gemini, model: x, options: {min_p: 0.5}}}`, false},
		{`models: {m: {provider: gemini, model: x, options: {max_tokens: 1}}}`, false},
		{`models: {m: {provider: gemini, model: x, options: {parallel_tool_calls: false}}}`, false},
		{`models: {m: {provider: gemini, model: x, options: {safety: {HARM_CATEGORY_HARASSMENT: NEVER}}}}`, false},
		{`models: {m: {provider: gemini, model: x, options: {safety: {HARM: OFF}}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {safety: {HARM_CATEGORY_HARASSMENT: OFF}}}}`, false},
		{`models: {m: {provider: gemini}}`, false},
		{`models: {m: {provider: gemini, model: x, file: f}}`, false},
		{`models: {m: {provider: gemini, api: responses, model: x}}`, false},
		{`models: {m: {provider: openai, model: x, options: {temperature: -1}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {temperature: hot}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {top_p: 1.5}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {top_k: 0.5}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {stop: END}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {verbosity: loud}}}`, false},
		{`models: {m: {provider: openai, model: x, options: {extra: [1]}}}`, false},
		{`models: {m: {provider: script, file: f, options: {temperature: 1}}}`, false},
		{`models: {m: {provider: openai, model: x, rpm: 0}}`, false},
		{`models: {m: {provider: openai, model: x, rpm: 0.5}}`, false},
		{`models: {m: {provider: openai, model: x, tpm: -1}}`, false},
		{`models: {m: {provider: openai, model: x, tpm: 2147483648}}`, false},
		{`models: {m: {provider: openai, model: x, max_parallel: "4"}}`, false},
		{`models: {m: {provider: script, file: f, max_parallel: 4}}`, false},
		{`tools: {exec: {allow: [], dir: d, timeout: 0.5s, env: [A_B]}, http: {}}`, true},
		{`tools: {exec: {allow: [], env: [A-B]}}`, false},
		{`{limits: {grace: "${WAIT}"}, store: "${STORE}", secrets: {from_env: ["${TOKEN}"]}}`, true},
		{`telemetry: {otlp: "http://localhost:4318"}`, true},
		{`telemetry: {otlp: "HTTPS://collector.test/otlp/", content: true, headers: {X-Tenant: t, X-Api-Key: "${OPENAI_API_KEY}"}, service_name: triage}`, true},
		{`telemetry: {otlp: "http://${SOME}:4318"}`, true},

		{`secrets: {from_files: /run/secrets, from_env: [A]}`, true},
		{`secrets: {from_files: "${SOME}/secrets"}`, true},
		{`secrets: {from_files: ""}`, false},
		{`secrets: {from_files: [a]}`, false},
		{`retriever: {index: "docs/${SOME}"}`, true},
		{`{models: {a: {provider: script, file: f, fallback: [b]}, b: {provider: script, file: f}}, strict: true, interrupt: restart}`, true},
		{`agents: {tools: [exec.*], deny: [file.write], approval: {exec.run: pause}, approval_expires: 1h, max_calls: 1}`, true},
		{`retry: {model: {max_attempts: 1, backoff: 0s, max_backoff: 1m, jitter: full, mode: pause, retry_on: [], timeout: "${WAIT}"}, memory: {}}`, true},
		{`agents: {tools: []}`, false},
		{`agents: {max_calls: 0}`, false},
		{`retry: {all: {}}`, false},
		{`retry: {tool: {retry_on: [often]}}`, false},
		{`interrupt: stop`, false},
		{`{embedders: {e: {provider: hash, dimensions: 64}}, retrievers: {a: {folder: docs}, b: {store: "sqlite:b.db", mode: words}, c: {store: "sqlite:c.db", embed: e, mode: vector}}}`, true},
		{`embedders: {e: {provider: openai, model: m, base_url: "http://localhost:1/v1", api_key: "${OPENAI_API_KEY}", headers: {X-Title: t}, timeout: 1m, provider_name: ollama}}`, true},
		{`{embedders: {e: {provider: hash}}, rerankers: {a: {embed: e}, b: {model: m, base_url: "http://localhost:1/v1", api_key: "${OPENAI_API_KEY}", timeout: 1m}}}`, true},
		{`rerankers: {a: {}}`, false},
		{`{embedders: {e: {provider: hash}}, rerankers: {a: {embed: e, model: m}}}`, false},
		{`rerankers: {a: {model: m, top_k: 3}}`, false},
		{`embedders: {e: {provider: openai}}`, false},
		{`embedders: {e: {provider: hash, model: m}}`, false},
		{`embedders: {e: {provider: other}}`, false},
		{`retrievers: {a: {}}`, false},
		{`retrievers: {a: {folder: docs, store: "sqlite:a.db"}}`, false},
		{`retrievers: {a: {folder: docs, mode: words}}`, false},
		{`retrievers: {a: {store: "mysql:a"}}`, false},
		{`retrievers: {a: {store: "postgres://u@h/d"}, b: {store: "${INDEX}"}}`, true},
		{`retrievers: {a: {store: "sqlite:"}}`, false},
		{`retrievers: {a: {store: "sqlite:a.db", mode: hybrid}}`, false},
		{`retrievers: {a: {store: "sqlite:a.db", mode: near}}`, false},

		{`serve: {}`, true},
		{`serve: {listen: ":0", url: "https://b.test", hosts: [b.test], tls: {cert: c, key: k}, recipes: [r], queues: [a], max_runs: {"*": 4, r: 1}, max_body: 1, max_queued: 1, drain: 1s, retention: 720h}`, true},
		{`serve: {tokens: {ci: {token: "${SECRET}", roles: [start, operate], recipes: [r], groups: [g]}}}`, true},
		{`serve: {tokens: {ci: {token: 0123456789abcdef, roles: [start]}}}`, false},
		{`serve: {tokens: {ci: {token: "${SECRET}", roles: [admin]}}}`, false},
		{`serve: {tokens: {ci: {token: "${SECRET}"}}}`, false},
		{`serve: {proxy: {from: [10.0.0.7, 10.0.0.0/8], user: X-User, groups: X-Groups, roles: {read: ["*"], operate: [a]}}}`, true},
		{`serve: {proxy: {from: [10.0.0.7], user: X-User, roles: {admin: [a]}}}`, false},
		{`serve: {proxy: {from: [10.0.0.7], roles: {}}}`, false},
		{`notify: [{url: "https://b.test/x", secret: "${SECRET}", on: [paused, ok, error, cancelled], recipes: [r], link: true, remind: 4h}]`, true},
		{`notify: [{exec: [./notify.sh, now], remind: 1d}]`, true},
		{`notify: [{url: "ftp://b.test/x", secret: "${SECRET}"}]`, false},
		{`notify: [{url: "https://b.test/x", secret: "${SECRET}", on: [failed]}]`, false},
		{`notify: [{url: "https://b.test/x"}]`, false},
		{`notify: [{url: "https://b.test/x", secret: "${SECRET}", exec: [a]}]`, false},
		{`notify: [{exec: []}]`, false},
		{`notify: [{exec: [a], remind: soon}]`, false},
		{`notify: [{on: [paused]}]`, false},
		{`serve: {triggers: {t: {recipe: r, signature: github, secret: "${SECRET}", inputs: {a: "${{ body.a }}", b: [1]}, key: "${{ headers.x }}", queue: q, labels: {a: b}}}}`, true},
		{`serve: {triggers: {t: {recipe: r, signature: none, secret: "${SECRET}"}}}`, false},
		{`serve: {triggers: {t: {recipe: r, signature: github}}}`, false},
		{`serve: {schedules: {s: {recipe: r, cron: "0 2 * * *", zone: Europe/Berlin, missed: last, inputs: {a: 1}, queue: q, labels: {a: b}}}}`, true},
		{`serve: {schedules: {s: {recipe: r}}}`, false},
		{`serve: {schedules: {s: {recipe: r, cron: "0 2 * * *", missed: all}}}`, false},
		{`serve: {max_runs: 0}`, false},
		{`serve: {max_runs: {r: 0}}`, false},
		{`serve: {tls: {cert: c}}`, false},
		{`serve: {port: 1}`, false},
		{`mcp: {}`, true},
		{`mcp: {files: {command: [npx, -y, server, "${SOME}"], env: {A: b, A_KEY: "${TOKEN}"}, dir: d, approval: pause, timeout: 5s}}`, true},
		{`mcp: {docs-2: {url: "https://h:8080/mcp?x=${SOME}", headers: {X: y, Authorization: "Bearer ${TOKEN}"}, approval: "never"}}`, true},

		{`{approval: pause, deny: [exec.run, "exec.run:git", external]}`, true},
		{`approval: {exec.run: refuse, "exec.run:git": pause, "http.*": always, external: pause, "*": never, crm.lookup: pause}`, true},

		{`approval: ask`, false},
		{`approval: {exec.run: maybe}`, false},
		{`approval: [pause]`, false},
		{`deny: exec.run`, false},
		{`[]`, false},
		{`retriever: {}`, false},
		{`retriever: {index: ""}`, false},
		{`retriever: {index: docs, top: 5}`, false},
		{`mcp: {a.b: {command: [x]}}`, false},
		{`mcp: {files: {}}`, false},
		{`mcp: {files: {command: []}}`, false},
		{`mcp: {files: {command: [x], url: "http://h"}}`, false},
		{`mcp: {files: {command: [x], headers: {A: b}}}`, false},
		{`mcp: {files: {command: [x], env: {A_TOKEN: b}}}`, false},
		{`mcp: {files: {url: "http://h", env: {A: b}}}`, false},
		{`mcp: {files: {url: "http://h", dir: d}}`, false},
		{`mcp: {files: {url: "file:///h"}}`, false},
		{`mcp: {files: {url: "http://u@h"}}`, false},
		{`mcp: {files: {url: "http://h", headers: {Authorization: b}}}`, false},
		{`mcp: {files: {command: [x], approval: ask}}`, false},
		{`mcp: {files: {command: [x], timeout: 5}}`, false},
		{`memory: {store: true}`, true},
		{`memory: {store: false}`, true},
		{`memory: {}`, false},
		{`memory: true`, false},
		{`memory: {store: sqlite}`, false},
		{`memory: {store: true, thread: x}`, false},
		{`skills: "${SOME}/skills"`, true},
		{`skills: ""`, false},
		{`skills: {base: ./skills}`, false},
		{`model: {}`, false},
		{`models: {"": {provider: script, file: f.yaml}}`, false},
		{`models: {m: {file: f.yaml}}`, false},
		{`models: {m: {provider: script}}`, false},
		{`models: {m: {provider: script, file: ""}}`, false},
		{`models: {m: {provider: script, file: f.yaml, timeout: 1s}}`, false},
		{`models: {m: {provider: openai}}`, false},
		{`models: {m: {provider: openai, model: x, file: f.yaml}}`, false},
		{`models: {m: {provider: openai, model: x, api_key: sk-1}}`, false},
		{`models: {m: {provider: openai, model: x, api_key: "$${KEY}"}}`, false},
		{`models: {m: {provider: openai, model: x, base_url: localhost}}`, false},
		{`models: {m: {provider: openai, model: x, headers: {authorization: Bearer 1}}}`, false},
		{`models: {m: {provider: openai, model: x, headers: {"a b": c}}}`, false},
		{`models: {m: {provider: openai, model: x, timeout: 30}}`, false},
		{`models: {m: {provider: openai, model: x, timeout: 0s}}`, false},
		{`models: {m: {provider: openai, model: x, timeout: soon}}`, false},
		{`models: {m: {provider: azure, model: x}}`, false},
		{`models: {m: {provider: openai, model: x, provider_name: ""}}`, false},
		{`models: {m: {provider: script, file: f.yaml, provider_name: x}}`, false},
		{`tools: {exec: {}}`, false},
		{`tools: {exec: {allow: git}}`, false},
		{`tools: {file: {base: d, allow: [x]}}`, false},
		{`tools: {http: {allow_private: "yes"}}`, false},
		{`secrets: {from_env: [A-B]}`, false},
		{`limits: {max_parallel: 0}`, false},
		{`limits: {wall_time: 1s}`, true},
		{`limits: {tokens: 5, cost_usd: 0.5, wall_time: "${WAIT}", on_exceeded: fail}`, true},
		{`limits: {tokens: 0}`, false},
		{`limits: {tokens: 1.5}`, false},
		{`limits: {cost_usd: 0}`, false},
		{`limits: {cost_usd_per_day: 20, per_label: {tenant: 5, team: 0.5}, on_exceeded: pause}`, true},
		{`limits: {per_label: {tenant: 5}, on_exceeded: pause}`, true},
		{`limits: {cost_usd_per_day: 0}`, false},
		{`limits: {per_label: {tenant: 0}}`, false},
		{`limits: {per_label: {tenant: x}}`, false},
		{`limits: {per_label: [tenant]}`, false},
		{`limits: {cost_usd: -1}`, false},
		{`limits: {wall_time: 10}`, false},
		{`limits: {wall_time: 1s, on_exceeded: stop}`, false},
		{`limits: {max_parallel: 1, on_exceeded: pause}`, false},
		{`store: sqlite:runs.db`, true},
		{`store: sqlite:runs.db?synchronous=normal`, true},
		{`store: jsonl:runs`, true},
		{`store: postgres://localhost/runs`, true},
		{`store: postgresql://localhost/runs`, true},
		{`store: sqlite:runs.db?synchronous=off`, false},
		{`store: "sqlite:"`, false},
		{`store: "jsonl:"`, false},
		{`store: postgres:localhost`, false},
		{`store: redis://localhost`, false},
		{`telemetry: {}`, false},
		{`telemetry: {otlp: "localhost:4318"}`, false},
		{`telemetry: {otlp: "http://u:p@localhost:4318"}`, false},
		{`telemetry: {otlp: "http://localhost:4318/?token=x"}`, false},
		{`telemetry: {otlp: "http://localhost:4318", content: "yes"}`, false},
		{`telemetry: {otlp: "http://localhost:4318", headers: {x-api-key: abc}}`, false},
		{`telemetry: {otlp: "http://localhost:4318", headers: {"a b": c}}`, false},
		{`telemetry: {otlp: "http://localhost:4318", service_name: ""}`, false},
		{`telemetry: {otlp: "http://localhost:4318", protocol: grpc}`, false},
	} {
		_, err := host.ParseConfig("braise.yaml", []byte(tt.text), env)
		if (err == nil) != tt.valid {
			t.Errorf("%s\nParseConfig: %v", tt.text, err)
		}
		root, _ := yamlnode.Parse("braise.yaml", []byte(tt.text), nil)
		if problems := s.Check(root.Decoded()); (problems == nil) != tt.valid {
			t.Errorf("%s\nthe schema: %s", tt.text, schema.Describe(problems))
		}
	}
}

// The schema has the keys that the page has.
func TestConfigSchemaIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([][A-Za-z_.]+)` \\|").FindAllSubmatch(page, -1) {
		documented[string(row[1])] = true
	}
	var root any
	if err := json.Unmarshal(host.ConfigSchema(), &root); err != nil {
		t.Fatal(err)
	}
	defs := root.(map[string]any)["$defs"].(map[string]any)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		part := v.(map[string]any)
		properties, _ := part["properties"].(map[string]any)
		if items, ok := part["items"].(map[string]any); ok && items["$ref"] == "#/$defs/notify" {
			walk(path+"[]", defs["notify"])
			return
		}
		for _, def := range []string{"model", "price", "server", "token", "trigger", "schedule", "retriever", "embedder", "reranker"} {
			if ref, ok := part["additionalProperties"].(map[string]any); ok && ref["$ref"] == "#/$defs/"+def {
				properties = map[string]any{"NAME": defs[def]}
			}
		}
		for name, p := range properties {
			walk(path+"."+name, p)
		}
		if properties == nil && !documented[path[1:]] {
			t.Errorf("docs/config.md lacks %s", path[1:])
		}
		delete(documented, path[min(1, len(path)):])
	}
	walk("", root)
	for name := range documented {
		t.Errorf("the schema lacks %s", name)
	}
}
