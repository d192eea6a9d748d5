package recipe

// hints say what to write instead of mistakes that people who know other formats make: by key and what stands under it,
// or missing.
var hints = map[string]string{
	"apiVersion missing": "begin with apiVersion: " + APIVersion,
	"steps a list":       "steps is a mapping: write the id as its key, a: in place of - id: a",
	"steps null":         "indent the steps below it",
	"foreach a list":     "write foreach: {in: […]}",
	"foreach a string":   `write foreach: {in: "${{ … }}"}`,
	"retry an integer":   "write retry: {max_attempts: 3}",
	"needs a mapping":    "write a list of steps: [a, b]",
	"output a string":    resultHint,
}

// usesHints are kinds and tools by what people call them elsewhere.
var usesHints = map[string]string{
	"bash": "exec.run", "cmd": "exec.run", "command": "exec.run", "exec": "exec.run", "run": "exec.run",
	"script": "exec.run", "sh": "exec.run", "shell": "exec.run",
	"curl": "http.request", "fetch": "http.request", "http": "http.request", "request": "http.request",
	"chat": "model", "completion": "model", "generate": "model", "llm": "model", "prompt": "model",
	"echo": "say", "message": "say", "notify": "say", "print": "say", "log": "say",
	"approval": "human", "approve": "human", "ask": "human",
	"delay": "wait", "sleep": "wait", "timer": "wait",
	"parallel": "fork", "race": "fork", "while": "loop", "repeat": "loop", "if": "switch", "case": "switch",
	"assign": "set", "value": "set", "error": "fail", "throw": "fail",
	"break": "switch", "end": "switch", "exit": "switch", "return": "switch", "stop": "switch",
	"subworkflow": "recipe", "workflow": "recipe",
	"search": "retrieve", "rag": "retrieve", "ingest": "index", "upsert": "index", "embed": "index",
}
