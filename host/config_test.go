package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/runtime"
)

// environ is an environment for ParseConfig.
func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func TestParseConfig(t *testing.T) {
	env := environ(map[string]string{"DIR": "data", "FILE": "canned.yaml", "KIND": "script", "WAIT": "90s", "ODD": "${DIR}", "KEY": "sk-0123456789", "HOST": "models.test"})
	tests := []struct {
		name, text string
		want       host.Config
	}{
		{"nothing", "{}", host.Config{Models: map[string]host.Model{}}},
		{"everything", `
models:
  fast:   {provider: script, file: testdata/fast.yaml}
  canned: {provider: script, file: /abs/canned.yaml}
  local:
    provider: openai
    model: llama3.2
    base_url: http://localhost:11434/v1
    headers: {X-Title: braise}
    timeout: 2m
    json_schema: false
    images: false
    provider_name: ollama
    options: {temperature: 0.2, reasoning: low, stop: [END], extra: {num_ctx: 8192}}
  deep: {provider: openai, api: responses, model: gpt-5-mini, options: {top_p: 0.5, reasoning: high, reasoning_summary: auto, verbosity: low, extra: {truncation: auto}}}
  large:
    provider: anthropic
    model: claude-sonnet-5-5
    headers: {anthropic-beta: b}
    timeout: 3m
    json_schema: false
    options: {top_p: 0.5, stop: [END], reasoning: high, max_tokens: 100, parallel_tool_calls: false, extra: {metadata: {user_id: u}}}
    rpm: 50
  quick:
    provider: gemini
    model: gemini-3.8-flash
    timeout: 1m
    options:
      temperature: 1
      top_k: 40
      seed: 7
      stop: [END]
      reasoning: low
      service_tier: flex
      safety: {HARM_CATEGORY_HATE_SPEECH: BLOCK_NONE, HARM_CATEGORY_HARASSMENT: OFF}
      extra: {labels: {team: a}, generationConfig: {mediaResolution: MEDIA_RESOLUTION_LOW}}
tools:
  exec: {allow: [git, ./bin/tool], timeout: 30s, dir: work, env: [GREETING, GIT_DIR]}
  file: {base: ./workspace}
  http: {allow_private: true, timeout: 5s}
mcp:
  files: {command: [npx, -y, some-server, .], env: {MODE: quiet}, dir: data, approval: pause, timeout: 1m}
  docs:  {url: "https://docs.test/mcp", headers: {X-Team: search}, elicit: true}
approval: {exec.run: pause, external: always}
deny: [file.write]
secrets: {from_env: [CRM_TOKEN, OTHER]}
limits: {max_parallel: 4, grace: 1s, tokens: 100000, cost_usd: 2.5, wall_time: 30m, on_exceeded: pause}
retriever: {index: ./docs}
memory: {store: true}
skills: ./skills
store: "sqlite:.braise/runs.db?synchronous=normal"
recipes: {roots: [../lib, /srv/recipes]}
instructions_from: [AGENTS.md, /etc/house.md]
`, host.Config{
			Running: host.Running{InstructionsFrom: []string{"AGENTS.md", "/etc/house.md"}},
			Roots:   []string{"../lib", "/srv/recipes"},
			Index:   "./docs",
			Skills:  "./skills",
			Memory:  true,
			Store:   "sqlite:.braise/runs.db?synchronous=normal",
			Models: map[string]host.Model{
				"fast":   {Provider: "script", File: "testdata/fast.yaml"},
				"canned": {Provider: "script", File: "/abs/canned.yaml"},
				"local": {Provider: "openai", OpenAI: &openai.Options{
					Model: "llama3.2", BaseURL: "http://localhost:11434/v1", Headers: map[string]string{"X-Title": "braise"},
					Timeout: 2 * time.Minute, NoSchema: true, NoImages: true, Provider: "ollama",
					Defaults: map[string]any{"temperature": 0.2, "reasoning_effort": "low", "stop": []string{"END"}, "num_ctx": int64(8192)},
				}},
				"deep": {Provider: "openai", OpenAI: &openai.Options{API: "responses", Model: "gpt-5-mini", Defaults: map[string]any{"top_p": 0.5,
					"reasoning": map[string]any{"effort": "high", "summary": "auto"}, "text": map[string]any{"verbosity": "low"}, "truncation": "auto"}}},
				"large": {Provider: "anthropic", Limits: limit.Limits{RPM: 50}, Anthropic: &anthropic.Options{
					Model: "claude-sonnet-5-5", Headers: map[string]string{"anthropic-beta": "b"}, Timeout: 3 * time.Minute, NoSchema: true,
					MaxTokens: 100, Reasoning: "high", OneCall: true,
					Defaults: map[string]any{"top_p": 0.5, "stop_sequences": []string{"END"}, "metadata": map[string]any{"user_id": "u"}},
				}},
				"quick": {Provider: "gemini", Gemini: &gemini.Options{Model: "gemini-3.8-flash", Timeout: time.Minute, Reasoning: "low",
					Defaults: map[string]any{"serviceTier": "flex", "labels": map[string]any{"team": "a"},
						"safetySettings": []any{map[string]any{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"},
							map[string]any{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}},
						"generationConfig": map[string]any{"temperature": 1.0, "topK": 40, "seed": 7, "stopSequences": []string{"END"}, "mediaResolution": "MEDIA_RESOLUTION_LOW"}},
				}},
			},
			Tools: builtin.Options{
				Exec: &builtin.ExecOptions{Allow: []string{"git", "./bin/tool"}, Timeout: 30 * time.Second, Dir: "work", Env: []string{"GREETING", "GIT_DIR"}},
				File: &builtin.FileOptions{Base: "./workspace"},
				HTTP: &builtin.HTTPOptions{AllowPrivate: true, Timeout: 5 * time.Second},
			},
			MCP: map[string]mcp.Config{
				"files": {Name: "files", Command: []string{"npx", "-y", "some-server", "."}, Env: map[string]string{"MODE": "quiet"}, Dir: "data", Approval: "pause", Timeout: time.Minute},
				"docs":  {Name: "docs", URL: "https://docs.test/mcp", Headers: map[string]string{"X-Team": "search"}, Elicit: true},
			},
			Secrets:  []string{"CRM_TOKEN", "OTHER"},
			Approval: map[string]string{"exec.run": "pause", "external": "always"}, Deny: []string{"file.write"},
			Limits: runtime.Limits{MaxParallel: 4, Grace: time.Second},
			Budget: runtime.Budget{Tokens: 100_000, CostUSD: 2.5, WallTime: 30 * time.Minute, Pause: true},
		}},
		{"variables", `
models:
  fast: {provider: "${KIND}", file: "${DIR}/${FILE}"}
  big:  {provider: openai, model: "${DIR}", api_key: "${KEY}", base_url: "https://${HOST}/v1", headers: {Authorization: "Token ${KEY}"}, timeout: "${WAIT}", json_schema: true}
tools:
  exec: {allow: ["${DIR}"], timeout: "${WAIT}"}
  file: {base: "a$${DIR}b/$DIR/${ODD}"}
skills: "${DIR}/skills"
mcp: {docs: {url: "https://${HOST}/mcp", headers: {Authorization: "Bearer ${KEY}"}}, run: {command: ["${DIR}/run"], env: {API_KEY: "${KEY}"}}}
store: "postgres://u:${KEY}@db/runs"
`, host.Config{
			Store:  "postgres://u:sk-0123456789@db/runs",
			Skills: "data/skills",
			MCP: map[string]mcp.Config{
				"docs": {Name: "docs", URL: "https://models.test/mcp", Headers: map[string]string{"Authorization": "Bearer sk-0123456789"}, Secrets: []string{"sk-0123456789"}},
				"run":  {Name: "run", Command: []string{"data/run"}, Env: map[string]string{"API_KEY": "sk-0123456789"}, Secrets: []string{"sk-0123456789"}},
			},
			Models: map[string]host.Model{
				"fast": {Provider: "script", File: "data/canned.yaml"},
				"big": {Provider: "openai", OpenAI: &openai.Options{
					Model: "data", APIKey: "sk-0123456789", BaseURL: "https://models.test/v1",
					Headers: map[string]string{"Authorization": "Token sk-0123456789"}, Timeout: 90 * time.Second,
				}},
			},
			Tools: builtin.Options{
				Exec: &builtin.ExecOptions{Allow: []string{"data"}, Timeout: 90 * time.Second},
				File: &builtin.FileOptions{Base: "a${DIR}b/$DIR/${DIR}"},
			},
		}},
		{"empty tools", "tools: {http: {}}\nsecrets: {}\nlimits: {}\nmemory: {store: false}", host.Config{
			Models: map[string]host.Model{}, Tools: builtin.Options{HTTP: &builtin.HTTPOptions{}},
		}},
		{"plain programs", "tools: {exec: {allow: [date], plain: [date]}}", host.Config{
			Models: map[string]host.Model{}, Tools: builtin.Options{Exec: &builtin.ExecOptions{Allow: []string{"date"}}},
			Running: host.Running{Agents: runtime.AgentLimits{PlainPrograms: []string{"date"}}},
		}},
		{"no plain programs where exec is absent", `tools: {exec: {allow: [date], plain: [date], dir: "${BRAISE_TEST_UNSET}"}}`,
			host.Config{Models: map[string]host.Model{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := host.ParseConfig("braise.yaml", []byte(tt.text), env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreUnexported(host.Config{}, host.Model{})); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	type found struct {
		At            string
		Code          diagnostics.Code
		Message, Hint string
	}
	const (
		program   = "it takes one program's name, such as exec.run:git, without folder and arguments, or exec.run:* for all"
		dollar    = `"$${" stands for "${" itself`
		durations = "durations look like 500ms, 30s, 5m, 2h, 1d"
		variable  = `put it into an environment variable and write "${NAME}"`
	)
	env := environ(map[string]string{"KEY": "hunter2hunter2", "EMPTY": "", "KIND": "openai", "LINES": "hunter2\nhunter2"})
	tests := []struct {
		name, text string
		want       []found
	}{
		{"empty file", "", []found{{"b.yaml:1:1", diagnostics.CodeSyntax, "the document is empty", ""}}},
		{"not a mapping", "[]", []found{{"b.yaml:1:1", diagnostics.CodeWrongType, "this must be a mapping, not a list", ""}}},
		{"roots", "recipes: {roots: lib, rots: []}", []found{
			{"b.yaml:1:18", diagnostics.CodeWrongType, `"roots" must be a list, not a string`, ""},
			{"b.yaml:1:23", diagnostics.CodeUnknownKey, `unknown key "rots"`, `did you mean "roots"?`},
		}},
		{"unknown keys", "model: {}\ntools:\n  exe: {}\n  http: {allow_privat: true}\nlimits: {max_paralel: 1}", []found{
			{"b.yaml:1:1", diagnostics.CodeUnknownKey, `unknown key "model"`, `did you mean "models"?`},
			{"b.yaml:3:3", diagnostics.CodeUnknownKey, `unknown key "exe"`, `did you mean "exec"?`},
			{"b.yaml:4:10", diagnostics.CodeUnknownKey, `unknown key "allow_privat"`, `did you mean "allow_private"?`},
			{"b.yaml:5:10", diagnostics.CodeUnknownKey, `unknown key "max_paralel"`, `did you mean "max_parallel"?`},
		}},
		{"servers of tools", `mcp:
  a.b: {command: [x]}
  none: {}
  both: {command: [x], url: "http://h"}
  secret: {url: "http://h", headers: {Authorization: "Bearer abc"}}
  env: {command: [x], env: {API_TOKEN: abc, A: "${NOT_SET}"}}
  word: {command: [x], approval: ask, timeout: 5, args: [y]}
  url: {url: "http://me:${KEY}@h"}
`, []found{
			{"b.yaml:2:3", diagnostics.CodeInvalidValue, `the name "a.b" of a server may have letters, digits, _ and -`, ""},
			{"b.yaml:3:3", diagnostics.CodeInvalidValue, `mcp server "none": it needs a command or a URL`, ""},
			{"b.yaml:4:3", diagnostics.CodeInvalidValue, `mcp server "both": it has a command or a URL, not both`, ""},
			{"b.yaml:5:54", diagnostics.CodeInvalidValue, `the secret "Authorization" may not stand in the file`, variable},
			{"b.yaml:6:40", diagnostics.CodeInvalidValue, `the secret "API_TOKEN" may not stand in the file`, variable},
			{"b.yaml:7:34", diagnostics.CodeInvalidValue, `"approval" may not be "ask"`, "allowed: never, pause, always, refuse"},
			{"b.yaml:7:48", diagnostics.CodeWrongType, `"timeout" must be a duration, not an integer`, "give it a unit: 5s"},
			{"b.yaml:7:51", diagnostics.CodeUnknownKey, `unknown key "args"`, "known here: approval, command, dir, elicit, env, headers, timeout, url"},
			{"b.yaml:8:3", diagnostics.CodeInvalidValue, `mcp server "url": the URL may not hold a user`, "give a header"},
		}},
		{"memory and skills", "memory: {}\nskills: ''", []found{
			{"b.yaml:1:9", diagnostics.CodeMissingKey, `the key "store" is missing from "memory"`, ""},
			{"b.yaml:2:9", diagnostics.CodeInvalidValue, `"skills" may not be empty`, ""},
		}},
		{"instructions of other types", "instructions_from: AGENTS.md", []found{
			{"b.yaml:1:20", diagnostics.CodeWrongType, `"instructions_from" must be a list, not a string`, ""},
		}},
		{"instructions without a name", "instructions_from: [1, '']", []found{
			{"b.yaml:1:21", diagnostics.CodeWrongType, `this must be a string, not an integer`, "quote it"},
			{"b.yaml:1:24", diagnostics.CodeInvalidValue, `this may not be empty`, ""},
		}},
		{"memory and skills of other types", "memory: {store: sqlite, redis: x}\nskills: [a]", []found{
			{"b.yaml:1:17", diagnostics.CodeWrongType, `"store" must be a boolean, not a string`, ""},
			{"b.yaml:1:25", diagnostics.CodeUnknownKey, `unknown key "redis"`, "known here: store"},
			{"b.yaml:2:9", diagnostics.CodeWrongType, `"skills" must be a string, not a list`, ""},
		}},
		{"prices", "prices:\n  a: {input: 0.25}\n  b: {input: -1, output: 2}\n  c: 3\n  d: {input: x, output: 0, cached: 1}\n" +
			"  e: {input: 1, output: 2, cached_read: 0, cache_write: -1}\n  f: {input: 1, output: 2, cached_read: x}", []found{
			{"b.yaml:2:6", diagnostics.CodeMissingKey, `the key "output" is missing from "a"`, ""},
			{"b.yaml:3:14", diagnostics.CodeInvalidValue, `"input" must be 0 or more`, ""},
			{"b.yaml:4:6", diagnostics.CodeWrongType, `"c" must be a mapping, not an integer`, ""},
			{"b.yaml:5:14", diagnostics.CodeWrongType, `"input" must be a number, not a string`, ""},
			{"b.yaml:5:28", diagnostics.CodeUnknownKey, `unknown key "cached"`, "known here: cache_write, cached_read, input, output"},
			{"b.yaml:6:41", diagnostics.CodeInvalidValue, `"cached_read" must be more than 0`, "leave it out for the price of input"},
			{"b.yaml:6:57", diagnostics.CodeInvalidValue, `"cache_write" must be 0 or more`, ""},
			{"b.yaml:7:41", diagnostics.CodeWrongType, `"cached_read" must be a number, not a string`, ""},
		}},
		{"options of a model", `
models:
  a: {provider: openai, model: m, options: {temprature: 1}}
  b: {provider: openai, model: m, options: {temperature: -0.5, top_p: 1.5, seed: x, verbosity: loud}}
  c: {provider: openai, model: m, options: {reasoning_effort: low}}
  d: {provider: openai, model: m, options: {seed: 1, extra: {seed: 2, model: other, "a b": 1}}}
  e: {provider: script, file: f, options: {seed: 1}}
`, []found{
			{"b.yaml:3:45", diagnostics.CodeUnknownKey, `unknown key "temprature"`, `did you mean "temperature"?`},
			{"b.yaml:4:58", diagnostics.CodeInvalidValue, `"temperature" must be 0 or more`, ""},
			{"b.yaml:4:71", diagnostics.CodeInvalidValue, `"top_p" must be a number from 0 to 1`, ""},
			{"b.yaml:4:82", diagnostics.CodeWrongType, `"seed" must be an integer, not a string`, ""},
			{"b.yaml:4:96", diagnostics.CodeInvalidValue, `"verbosity" may not be "loud"`, "allowed: low, medium, high"},
			{"b.yaml:5:45", diagnostics.CodeUnknownKey, `unknown key "reasoning_effort"`, `did you mean "reasoning"?`},
			{"b.yaml:6:68", diagnostics.CodeInvalidValue, `"seed" stands in options, too`, "leave one of them out"},
			{"b.yaml:6:78", diagnostics.CodeInvalidValue, `"model" is not a default: each request has its own`, ""},
			{"b.yaml:6:92", diagnostics.CodeInvalidValue, `"a b" is not a default: each request has its own`, ""},
			{"b.yaml:7:43", diagnostics.CodeUnknownKey, `the provider "script" takes no "options"`, ""},
		}},
		{"responses", `
models:
  a: {provider: openai, api: responses, model: m, options: {seed: 1, stop: [a], effort: low, reasoning_summary: long}}
  b: {provider: openai, api: responses, model: m, options: {reasoning: high, extra: {store: true, reasoning: {effort: low}, text: x}}}
  c: {provider: openai, api: chat, model: m}
  d: {provider: openai, model: m, options: {reasoning_summary: auto}}
  e: {provider: anthropic, api: responses, model: m}
`, []found{
			{"b.yaml:3:61", diagnostics.CodeUnknownKey, `unknown key "seed"`, "the Responses API has no such setting"},
			{"b.yaml:3:70", diagnostics.CodeUnknownKey, `unknown key "stop"`, "the Responses API has no such setting"},
			{"b.yaml:3:81", diagnostics.CodeUnknownKey, `unknown key "effort"`, `did you mean "reasoning"?`},
			{"b.yaml:3:113", diagnostics.CodeInvalidValue, `"reasoning_summary" may not be "long"`, "allowed: auto, concise, detailed"},
			{"b.yaml:4:93", diagnostics.CodeInvalidValue, `"store" is not a default: each request has its own`, ""},
			{"b.yaml:4:110", diagnostics.CodeInvalidValue, `"reasoning.effort" stands in options, too`, "leave one of them out"},
			{"b.yaml:4:131", diagnostics.CodeInvalidValue, `the default "text" must be an object`, ""},
			{"b.yaml:5:30", diagnostics.CodeInvalidValue, `"api" may not be "chat"`, "allowed: responses"},
			{"b.yaml:6:45", diagnostics.CodeUnknownKey, `unknown key "reasoning_summary"`, "only the Responses API has summaries: api: responses of the model"},
			{"b.yaml:7:33", diagnostics.CodeUnknownKey, `the provider "anthropic" takes no "api"`, ""},
		}},
		{"anthropic", `
models:
  a: {provider: anthropic, model: m, options: {seed: 1, thinking: {}, effort: low, temperature: 1.5, max_tokens: 0}}
  b: {provider: anthropic, model: m, options: {reasoning: high, extra: {max_tokens: 5, thinking: {type: disabled}}}}
  c: {provider: anthropic, base_url: api.anthropic.com, api_key: hunter2hunter2, file: x}
  d: {provider: openai, model: m, options: {max_tokens: 5}}
`, []found{
			{"b.yaml:3:48", diagnostics.CodeUnknownKey, `unknown key "seed"`, `the provider "anthropic" has no such setting`},
			{"b.yaml:3:57", diagnostics.CodeUnknownKey, `unknown key "thinking"`, "write reasoning: low, medium or high; or put thinking into extra"},
			{"b.yaml:3:71", diagnostics.CodeUnknownKey, `unknown key "effort"`, `did you mean "reasoning"?`},
			{"b.yaml:3:97", diagnostics.CodeInvalidValue, `"temperature" must be a number from 0 to 1`, ""},
			{"b.yaml:3:114", diagnostics.CodeInvalidValue, `"max_tokens" must be between 1 and 2147483647`, ""},
			{"b.yaml:4:85", diagnostics.CodeInvalidValue, `"max_tokens" is not a default: each request has its own`, ""},
			{"b.yaml:5:6", diagnostics.CodeMissingKey, `the key "model" is missing from "c"`, ""},
			{"b.yaml:5:38", diagnostics.CodeInvalidValue, `the base URL is not like "https://api.anthropic.com/v1"`, ""},
			{"b.yaml:5:66", diagnostics.CodeInvalidValue, `the secret "api_key" may not stand in the file`, variable},
			{"b.yaml:5:88", diagnostics.CodeUnknownKey, `the provider "anthropic" takes no "file"`, ""},
			{"b.yaml:6:45", diagnostics.CodeUnknownKey, `unknown key "max_tokens"`, "give max_tokens to the step or the agent"},
		}},
		{"gemini", `
models:
  a: {provider: gemini, model: m, options: {min_p: 1, thinking: {}, parallel_tool_calls: false, temperature: -1, max_tokens: 5}}
  b: {provider: gemini, model: m, options: {top_p: 1, extra: {contents: [], generationConfig: {topP: 0.5}}}}
  c: {provider: gemini, base_url: generativelanguage.googleapis.com, api_key: hunter2hunter2, file: x}
  d: {provider: gemini, model: m, options: {safety: {HARM_CATEGORY_HARASMENT: OFF, HARM_CATEGORY_JAILBREAK: NEVER}, extra: {generationConfig: {responseSchema: {}}}}}
  e: {provider: gemini, model: m, options: {safetySettings: []}}
`, []found{
			{"b.yaml:3:45", diagnostics.CodeUnknownKey, `unknown key "min_p"`, `the provider "gemini" has no such setting`},
			{"b.yaml:3:55", diagnostics.CodeUnknownKey, `unknown key "thinking"`, "write reasoning: minimal, low, medium or high; or put generationConfig into extra"},
			{"b.yaml:3:69", diagnostics.CodeUnknownKey, `unknown key "parallel_tool_calls"`, `the provider "gemini" has no such setting`},
			{"b.yaml:3:110", diagnostics.CodeInvalidValue, `"temperature" must be 0 or more`, ""},
			{"b.yaml:3:114", diagnostics.CodeUnknownKey, `unknown key "max_tokens"`, "give max_tokens to the step or the agent"},
			{"b.yaml:4:73", diagnostics.CodeInvalidValue, `"contents" is not a default: each request has its own`, ""},
			{"b.yaml:4:95", diagnostics.CodeInvalidValue, `"generationConfig.topP" stands in options, too`, "leave one of them out"},
			{"b.yaml:5:6", diagnostics.CodeMissingKey, `the key "model" is missing from "c"`, ""},
			{"b.yaml:5:35", diagnostics.CodeInvalidValue, `the base URL is not like "https://generativelanguage.googleapis.com/v1beta"`, ""},
			{"b.yaml:5:79", diagnostics.CodeInvalidValue, `the secret "api_key" may not stand in the file`, variable},
			{"b.yaml:5:101", diagnostics.CodeUnknownKey, `the provider "gemini" takes no "file"`, ""},
			{"b.yaml:6:54", diagnostics.CodeUnknownKey, `unknown key "HARM_CATEGORY_HARASMENT"`, `did you mean "HARM_CATEGORY_HARASSMENT"?`},
			{"b.yaml:6:109", diagnostics.CodeInvalidValue, `"HARM_CATEGORY_JAILBREAK" may not be "NEVER"`, "allowed: BLOCK_LOW_AND_ABOVE, BLOCK_MEDIUM_AND_ABOVE, BLOCK_ONLY_HIGH, BLOCK_NONE, OFF"},
			{"b.yaml:6:143", diagnostics.CodeInvalidValue, `"responseSchema" is not a default: each request has its own`, ""},
			{"b.yaml:7:45", diagnostics.CodeUnknownKey, `unknown key "safetySettings"`, `did you mean "safety"?`},
		}},
		{"retriever without a folder", "retriever: {}", []found{{"b.yaml:1:12", diagnostics.CodeMissingKey, `the key "index" is missing from "retriever"`, ""}}},
		{"models", `
models:
  a: {provider: openai, model: gpt-5-mini, api_key: "${UNSET}"}
  b: {provider: scripts, file: x}
  c: {file: x}
  d: {provider: script}
  e: {provider: script, file: x, base_url: "http://localhost", provider_name: x}
  f: script
  "": {provider: script, file: x}
`, []found{
			{"b.yaml:4:17", diagnostics.CodeInvalidValue, `"provider" may not be "scripts"`, `did you mean "script"?`},
			{"b.yaml:5:6", diagnostics.CodeMissingKey, `the key "provider" is missing from "c"`, ""},
			{"b.yaml:6:6", diagnostics.CodeMissingKey, `the key "file" is missing from "d"`, ""},
			{"b.yaml:7:44", diagnostics.CodeUnknownKey, `the provider "script" takes no "base_url"`, ""},
			{"b.yaml:7:79", diagnostics.CodeUnknownKey, `the provider "script" takes no "provider_name"`, ""},
			{"b.yaml:8:6", diagnostics.CodeWrongType, `"f" must be a mapping, not a string`, ""},
			{"b.yaml:9:3", diagnostics.CodeInvalidValue, "a model's name may not be empty", ""},
		}},
		{"openai", `
models:
  a: {provider: openai, modell: m, file: x}
  b: {provider: openai, model: "", api_key: hunter2hunter2, headers: {x-api-key: "$${KEY}", X-Title: fine}}
  c: {provider: openai, model: m, base_url: "localhost:11434/v1", timeout: 30, json_schema: "no"}
  d: {provider: openai, model: m, headers: {"X Y": z, Accept: ""}}
  e: {provider: openai, model: m, base_url: "${KEY}", api_key: "${LINES}", headers: {X-A: "${LINES}"}}
  f: {provider: openai, model: m, api_key: 7, headers: []}
  g: {provider: openai, model: m, provider_name: ""}
  h: {provider: openai, model: m, provider_name: [x]}
`, []found{
			{"b.yaml:3:6", diagnostics.CodeMissingKey, `the key "model" is missing from "a"`, ""},
			{"b.yaml:3:25", diagnostics.CodeUnknownKey, `unknown key "modell"`, `did you mean "model"?`},
			{"b.yaml:3:42", diagnostics.CodeUnknownKey, `the provider "openai" takes no "file"`, ""},
			{"b.yaml:4:32", diagnostics.CodeInvalidValue, `"model" may not be empty`, ""},
			{"b.yaml:4:45", diagnostics.CodeInvalidValue, `the secret "api_key" may not stand in the file`, variable},
			{"b.yaml:4:82", diagnostics.CodeInvalidValue, `the secret "x-api-key" may not stand in the file`, variable},
			{"b.yaml:5:45", diagnostics.CodeInvalidValue, `the base URL is not like "https://api.openai.com/v1"`, ""},
			{"b.yaml:5:76", diagnostics.CodeWrongType, `"timeout" must be a duration, not an integer`, "give it a unit: 30s"},
			{"b.yaml:5:93", diagnostics.CodeWrongType, `"json_schema" must be a boolean, not a string`, ""},
			{"b.yaml:6:52", diagnostics.CodeInvalidValue, `"X Y" is not the name of a header`, ""},
			{"b.yaml:6:63", diagnostics.CodeInvalidValue, `"Accept" may not be empty`, ""},
			{"b.yaml:7:45", diagnostics.CodeInvalidValue, `the base URL is not like "https://api.openai.com/v1"`, ""},
			{"b.yaml:8:44", diagnostics.CodeWrongType, `"api_key" must be a string, not an integer`, "quote it"},
			{"b.yaml:8:56", diagnostics.CodeWrongType, `"headers" must be a mapping, not a list`, ""},
			{"b.yaml:9:50", diagnostics.CodeInvalidValue, `"provider_name" may not be empty`, ""},
			{"b.yaml:10:50", diagnostics.CodeWrongType, `"provider_name" must be a string, not a list`, ""},
		}},
		{"tools", "tools:\n  exec: {timeout: 30}\n  file: {}\n  http: {allow_private: 1, timeout: 0s}", []found{
			{"b.yaml:2:9", diagnostics.CodeMissingKey, `the key "allow" is missing from "exec"`, ""},
			{"b.yaml:2:19", diagnostics.CodeWrongType, `"timeout" must be a duration, not an integer`, "give it a unit: 30s"},
			{"b.yaml:3:9", diagnostics.CodeMissingKey, `the key "base" is missing from "file"`, ""},
			{"b.yaml:4:25", diagnostics.CodeWrongType, `"allow_private" must be a boolean, not an integer`, ""},
			{"b.yaml:4:37", diagnostics.CodeInvalidValue, `"timeout" must be more than 0`, ""},
		}},
		{"secrets and limits", "secrets: {from_env: [A B, 1]}\nlimits: {max_parallel: 0, grace: -1s}", []found{
			{"b.yaml:1:22", diagnostics.CodeInvalidValue, `"A B" does not name an environment variable`, ""},
			{"b.yaml:1:27", diagnostics.CodeWrongType, "this must be a string, not an integer", "quote it"},
			{"b.yaml:2:24", diagnostics.CodeInvalidValue, `"max_parallel" must be between 1 and 2147483647`, ""},
			{"b.yaml:2:34", diagnostics.CodeInvalidValue, `"grace" may not be negative`, ""},
		}},
		{"budgets", "limits: {tokens: 0, cost_usd: 0, wall_time: 0s, on_exceeded: stop}", []found{
			{"b.yaml:1:18", diagnostics.CodeInvalidValue, `"tokens" must be between 1 and 2147483647`, ""},
			{"b.yaml:1:31", diagnostics.CodeInvalidValue, `"cost_usd" must be more than 0`, "leave it out for no limit"},
			{"b.yaml:1:45", diagnostics.CodeInvalidValue, `"wall_time" must be more than 0`, ""},
			{"b.yaml:1:62", diagnostics.CodeInvalidValue, `"on_exceeded" may not be "stop"`, "allowed: fail, pause"},
		}},
		{"limits of a day", "limits: {cost_usd_per_day: -1, per_label: {tenant: 0, " + strings.Repeat("x", 65) + ": 1, team: much}}", []found{
			{"b.yaml:1:28", diagnostics.CodeInvalidValue, `"cost_usd_per_day" must be more than 0`, "leave it out for no limit"},
			{"b.yaml:1:52", diagnostics.CodeInvalidValue, `"tenant" must be more than 0`, "leave it out for no limit"},
			{"b.yaml:1:55", diagnostics.CodeInvalidValue, "the key of a label has 64 bytes at most, and this one 65", ""},
			{"b.yaml:1:131", diagnostics.CodeWrongType, `"team" must be a number, not a string`, ""},
		}},
		{"a limit of a variable that is not set", "limits: {wall_time: '${UNSET}'}\nsecrets: {from_env: ['${UNSET}']}", []found{
			{"b.yaml:1:21", diagnostics.CodeInvalidValue, `the environment variable "UNSET" is not set`, dollar},
			{"b.yaml:2:22", diagnostics.CodeInvalidValue, `the environment variable "UNSET" is not set`, dollar},
		}},
		{"a limit of a variable that is empty", "limits: {wall_time: '${EMPTY}'}\nsecrets: {from_env: ['${EMPTY}']}\nprices: {}", []found{
			{"b.yaml:1:21", diagnostics.CodeInvalidValue, `the environment variable "EMPTY" is empty`, "export EMPTY=…"},
			{"b.yaml:2:22", diagnostics.CodeInvalidValue, `the environment variable "EMPTY" is empty`, "export EMPTY=…"},
		}},
		{"names that match no tool", "mcp: {files: {command: [x]}}\napproval: {mcp.file.*: pause, mcp.files.x: pause, extrnal: pause, app.tool: pause}\ndeny: [mcp.other.x, 'exec.run:', delegate_x, 'exec.run:rm -rf', 'exec.run:/bin/rm', 'exec.run:*', 'exec.run:rm']", []found{
			{"b.yaml:2:12", diagnostics.CodeInvalidValue, `"mcp.file.*" can match no tool`, `did you mean "files"?`},
			{"b.yaml:2:51", diagnostics.CodeInvalidValue, `"extrnal" can match no tool`, "it takes a tool's name, PREFIX.*, exec.run:PROGRAM, read_only, idempotent, external or *"},
			{"b.yaml:3:8", diagnostics.CodeInvalidValue, `"mcp.other.x" can match no tool`, "known here: files"},
			{"b.yaml:3:21", diagnostics.CodeInvalidValue, `"exec.run:" can match no tool`, program},
			{"b.yaml:3:46", diagnostics.CodeInvalidValue, `"exec.run:rm -rf" can match no tool`, program}, // trust 8.2
			{"b.yaml:3:65", diagnostics.CodeInvalidValue, `"exec.run:/bin/rm" can match no tool`, program},
		}},
		{"plain programs", "tools: {exec: {allow: [git], plain: [git, /bin/ls, 'git *', make]}}", []found{
			{"b.yaml:1:43", diagnostics.CodeInvalidValue, `"/bin/ls" is not the name of a program`, "name one program, without a folder and arguments"},
			{"b.yaml:1:52", diagnostics.CodeInvalidValue, `"git *" is not the name of a program`, "name one program, without a folder and arguments"},
			{"b.yaml:1:61", diagnostics.CodeInvalidValue, `"make" runs other programs: a yes to one call is never one to all`, ""},
		}},
		{"a budget of nothing", "limits: {on_exceeded: pause, max_parallel: 2}", []found{
			{"b.yaml:1:23", diagnostics.CodeInvalidValue, `"on_exceeded" means nothing without a limit`, "give one of tokens, cost_usd, cost_usd_per_day, per_label, tool_calls, wall_time, or leave it out"},
		}},
		{"store with an option", "store: sqlite:runs.db?synchronous=off", []found{
			{"b.yaml:1:8", diagnostics.CodeInvalidValue, `synchronous is "full" or "normal", not "off"`, `say "sqlite:PATH?synchronous=normal"`}}},
		{"unknown store", "store: sqllite:x", []found{
			{"b.yaml:1:8", diagnostics.CodeInvalidValue, `unknown store "sqllite"`, `did you mean "sqlite"?`}}},
		{"not a store", "store: memory", []found{
			{"b.yaml:1:8", diagnostics.CodeInvalidValue, "a store is a URL that begins with its kind", `say "sqlite:runs.db" or "memory:"`}}},
		{"variables", `
models:
  a: {provider: script, file: "x/${UNSET}"}
  b: {provider: script, file: "${A-B}"}
  c: {provider: script, file: "a${KEY"}
tools: {file: {base: "${}"}}
`, []found{
			{"b.yaml:4:31", diagnostics.CodeInvalidValue, "${A-B} does not name an environment variable", dollar},
			{"b.yaml:5:31", diagnostics.CodeInvalidValue, `"${" without a "}"`, dollar},
			{"b.yaml:6:22", diagnostics.CodeInvalidValue, "${} does not name an environment variable", dollar},
		}},
		{"values of variables stay out of messages", `
models:
  a: {provider: "${KEY}", file: x}
  b: {provider: "${KIND}", file: x}
  c: {provider: script, file: "${EMPTY}"}
tools: {exec: {allow: [git], timeout: "${KEY}"}}
secrets: {from_env: ["-${KEY}"]}
store: "${KEY}"
`, []found{
			{"b.yaml:3:17", diagnostics.CodeInvalidValue, `"provider" may not be "${KEY}"`, "allowed: script, openai, anthropic, gemini"},
			{"b.yaml:4:6", diagnostics.CodeMissingKey, `the key "model" is missing from "b"`, ""},
			{"b.yaml:4:34", diagnostics.CodeUnknownKey, `the provider "openai" takes no "file"`, ""},
			{"b.yaml:6:39", diagnostics.CodeInvalidValue, `"${KEY}" is not a duration`, durations},
			{"b.yaml:7:22", diagnostics.CodeInvalidValue, `"-${KEY}" does not name an environment variable`, ""},
			{"b.yaml:8:8", diagnostics.CodeInvalidValue, "a store is a URL that begins with its kind", `say "sqlite:runs.db" or "memory:"`},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := host.ParseConfig("b.yaml", []byte(tt.text), env)
			if c != nil {
				t.Errorf("got a config, want nil")
			}
			list, ok := errors.AsType[*diagnostics.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *diagnostics.Error", err)
			}
			var got []found
			for _, d := range list.List {
				got = append(got, found{d.Position.String(), d.Code, d.Message, d.Hint})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

// Every snippet of the pages about models is part of a configuration that a Runtime can be made of.
func TestDocumentedModels(t *testing.T) {
	var text []byte
	pages, err := filepath.Glob("../docs/models/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../docs/models.md") {
		more, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, more...)
	}
	snippets := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(snippets) <= len(pages) {
		t.Errorf("the pages have %d snippets, want one for each provider", len(snippets))
	}
	for _, s := range snippets {
		config, inside := s[1], strings.TrimRight(s[1], "\n")
		if !strings.HasPrefix(config, "models:") {
			config = "models:\n  " + strings.ReplaceAll(inside, "\n", "\n  ")
		}
		c, err := host.ParseConfig("models.md", []byte(config), func(string) (string, bool) { return "0123456789", true })
		if err != nil {
			t.Errorf("%v\n%s", err, config)
			continue
		}
		if rt, err := c.Runtime(""); err != nil || len(rt.Models) == 0 {
			t.Errorf("got %v\n%s", err, config)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "braise.yaml")
	_, err := host.LoadConfig(path)
	list, ok := errors.AsType[*diagnostics.Error](err)
	if !ok || list.List[0].Code != diagnostics.CodeFile || list.List[0].Position.File != filepath.ToSlash(path) {
		t.Errorf("missing file: got %v, want recipe.file at the file", err)
	}

	t.Setenv("BRAISE_TEST_BASE", "space")
	write(t, path, `tools: {file: {base: "${BRAISE_TEST_BASE}"}}`)
	c, err := host.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tools.File.Base; got != "space" {
		t.Errorf("got base %q, want %q", got, "space")
	}
}

func TestFindConfig(t *testing.T) {
	work, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(work)
	find := func(recipe, want string) {
		t.Helper()
		got, err := host.FindConfig(recipe)
		if err != nil || got != want {
			t.Errorf("FindConfig(%q) = %q, %v, want %q", recipe, got, err, want)
		}
	}
	recipe := filepath.Join(elsewhere, "recipe.yaml")
	find(recipe, "")
	find("", "")
	write(t, "braise.yaml", "{}")
	find(recipe, "braise.yaml")
	find("", "braise.yaml")
	find("recipe.yaml", "braise.yaml")
	write(t, filepath.Join(elsewhere, "braise.yaml"), "{}")
	find(recipe, filepath.Join(elsewhere, "braise.yaml"))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func FuzzConfig(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("models:\n  fast: {provider: script, file: testdata/canned.yaml}\n  b: {provider: openai, model: m, api_key: \"${KEY}\", base_url: \"${URL}\", headers: {X-A: \"${A}\"}}\n")
	f.Add("tools:\n  exec: {allow: [git, python3], timeout: 30s}\n  file: {base: ./workspace}\n  http: {allow_private: false}\n")
	f.Add("secrets: {from_env: [CRM_TOKEN]}\nstore: sqlite:.braise/runs.db\nlimits: {max_parallel: 8, grace: 1s}\n")
	f.Add("mcp:\n  docs: {url: \"https://example.com/mcp\"}\nprices: {fast: {input: 0.25, output: 2}}\n")
	f.Add("models: {a: {provider: \"${P}\", file: \"$${x}${\"}}\ntools: {exec: {timeout: \"${T}\", allow: [\"${A}\"]}}\nstore: \"${S}:x\"\n")
	f.Add("store: *a\nmodels: {<<: {}}\n")
	const secret = "ZQ/hunter2/XK"
	env := func(string) (string, bool) { return secret, true }
	f.Fuzz(func(t *testing.T, text string) {
		c, err := host.ParseConfig("fuzz.yaml", []byte(text), env)
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v, %v, want a config or an error", c, err)
		}
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), secret) && !strings.Contains(text, "hunter2") {
			t.Errorf("the error holds a variable's value: %v", err)
		}
		list, ok := errors.AsType[*diagnostics.Error](err)
		if !ok || len(list.List) == 0 || list.List[0].Position.Line == 0 {
			t.Errorf("got %v, want a *diagnostics.Error with a position", err)
		}
	})
}
