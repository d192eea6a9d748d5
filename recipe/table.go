package recipe

import (
	"cmp"
	"slices"
)

//go:generate go test -run TestGenerated . -update

// Argument is a key of the format: of a step, of a kind's `with`, of any other object.
type Argument struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`              // as documented: "string", "duration", "list of strings"
	Allowed  []string `json:"allowed,omitempty"` // the values that a string may have; nil: any
	Required bool     `json:"required"`
	Doc      string   `json:"doc"` // a sentence
}

// object is a mapping of the format with its keys.
type object struct {
	name     string // for headings
	keys     []Argument
	known    []string          // the names of keys, and x-* where such keys are let through
	synonyms map[string]string // hints for wrong keys, as yamlnode.Reader.Object takes them
	open     bool              // takes keys that begin with x-
}

// newObject describes an object that also takes keys that begin with x-.
func newObject(name string, keys []Argument) *object {
	o := newArguments(name, keys)
	o.known, o.open = append(o.known, "x-*"), true
	return o
}

// newArguments describes an object that has its keys and no others.
func newArguments(name string, keys []Argument) *object {
	o := &object{name: name, keys: keys, synonyms: map[string]string{}}
	for _, key := range keys {
		o.known = append(o.known, key.Name)
	}
	for _, s := range synonyms {
		if slices.Contains(o.known, s.right) {
			o.synonyms[s.wrong] = cmp.Or(s.hint, s.right)
		}
	}
	return o
}

// key returns the key of that name, nil when o has none.
func (o *object) key(name string) *Argument {
	for i := range o.keys {
		if o.keys[i].Name == name {
			return &o.keys[i]
		}
	}
	return nil
}

// The types that a key may have. Each is a phrase that the documentation can print; schema.go has
// a JSON Schema for each.
const (
	typeAny        = "any value"
	typeBoolean    = "boolean"
	typeString     = "string"
	typeName       = "name"
	typeText       = "string or {file: path}"
	typeStrings    = "list of strings"
	typeTools      = "list of tools"
	typeToolNames  = "list of tools, all, or an expression"
	typeTexts      = "list of strings, or an expression"
	typeInteger    = "integer"
	typePositive   = "integer from 1"
	typeNatural    = "integer from 0"
	typeThousand   = "integer from 1 to 1000"
	typeRounds     = "integer from 1 to 1000, or an expression"
	typeHundred    = "integer from 1 to 100"
	typeCost       = "number above 0"
	typeNumber     = "number"
	typeDuration   = "duration"
	typeExpression = "expression"
	typeSchema     = "JSON Schema"
	typeInputs     = "mapping of names to JSON Schemas or type names"
	typeConsts     = "mapping of names to values"
	typeValues     = "mapping of names to values, or an expression"
	typeAgents     = "mapping of ids to agents"
	typeOwnTools   = "mapping of names to tools, see tools"
	typeSteps      = "mapping of ids to steps"
	typeSomeSteps  = "mapping of ids to steps, which may be empty"
	typeBody       = "body"
	typeBranches   = "mapping of names to bodies"
	typeCases      = "list of cases"
	typeChannels   = "mapping of names to value, queue or topic"
	typeList       = "list or expression"
	typeOnError    = "fail, continue or {set: value}"
	typeMessages   = "list of messages, or an expression"
	typePeople     = "list of names, or an expression"
	typeApproval   = "never, always or pause, or a mapping of tools to one"
	typeSubagents  = "false or {max_active: integer}"
	typeMemory     = "inherit or a mapping"
	typeAgent      = "id of an agent, or an agent"
	typeRetrieve   = "{top_k: integer}"
	typeCompact    = "{above: integer, keep: integer, model: string, prompt: string or {file: path}}"
	typeRerank     = "mapping, see retrieve.rerank"
	typeFiles      = "mapping, see index.files"
	typeDocuments  = "list of documents, see index.document, or an expression"
	typeChunk      = "mapping, see index.chunk"
	typeLinks      = "list of paths and URLs, or an expression"
	typeRequires   = "mapping, see requires"
	typeDefaults   = "mapping, see defaults"
	typeLimits     = "mapping, see limits"
	typeStepLimits = "mapping, see limits; without max_parallel"
	typeForeach    = "mapping, see foreach"
	typeOutput     = "mapping, see output"
	typeChecks     = "list of rules, see output.check"
	typeRetry      = "mapping, see retry"
	typeRetries    = "mapping of kinds of adapters to retry"
	typeRollback   = "mapping, see rollback"
	typeReasons    = "list of rate_limit, 5xx, timeout, network, unknown"
	typeWord       = "word"
	typeWords      = "list of words"
	typeForm       = "JSON Schema of an object"
	typeAnswer     = "JSON Schema or type name"
	typeOnExpire   = "fail, reject or {set: value}"
	typeOnEmpty    = "wait, fail or {set: value}"
	typeDelay      = "duration, or an expression"
	typeTime       = "time, or an expression"
)

// The objects of the format. One table for the reader, the JSON Schema and the documentation.
var (
	topObject = newObject("recipe", []Argument{
		{Name: "apiVersion", Type: typeString, Allowed: []string{APIVersion}, Required: true,
			Doc: "The version of the format."},
		{Name: "name", Type: typeString, Required: true, Doc: "The recipe's name."},
		{Name: "version", Type: typeString, Doc: "Your version of the recipe; any string."},
		{Name: "description", Type: typeString, Doc: "What the recipe is for."},
		{Name: "tags", Type: typeStrings, Doc: "Words to find the recipe by."},
		{Name: "requires", Type: typeRequires, Doc: "What must be configured before the first step."},
		{Name: "inputs", Type: typeInputs,
			Doc: "The inputs. One without a default is required; one that is not declared is refused."},
		{Name: "consts", Type: typeConsts, Doc: "Fixed values that expressions read as consts.NAME."},
		{Name: "defaults", Type: typeDefaults, Doc: "Settings for steps that do not have their own."},
		{Name: "limits", Type: typeLimits, Doc: "Limits of the whole run."},
		{Name: "channels", Type: typeChannels, Doc: "The channels that send and receive steps use."},
		{Name: "agents", Type: typeAgents, Doc: "Agents by id, beside the files in agents/."},
		{Name: "tools", Type: typeOwnTools, Doc: "Tools of this recipe, for its agents and its steps."},
		{Name: "steps", Type: typeSteps, Required: true, Doc: "The steps by id, at least one."},
		{Name: "finally", Type: typeSteps,
			Doc: "Steps that run when all others have ended, also after a failure. No rollback."},
		{Name: "output", Type: typeAny, Doc: "The run's output. Defaults to null."},
	})
	toolObject = newObject("tool", []Argument{
		{Name: "description", Type: typeString, Doc: "What it is for. With ref, defaults to that of the file."},
		{Name: "inputs", Type: typeInputs,
			Doc: "Its arguments, which its steps read as inputs, like those of the recipe. Not with ref."},
		{Name: "effect", Type: typeString, Allowed: effectWords,
			Doc: "What a call does to the world. Defaults to the strongest effect that its steps can have."},
		{Name: "ref", Type: typeString, Doc: "A recipe file, relative to this one's folder. Either this or steps."},
		{Name: "steps", Type: typeSteps,
			Doc: "Steps in place, which can read the inputs of the tool and of the recipe. Either this or ref."},
		{Name: "output", Type: typeAny, Doc: "What a call returns. Defaults to null. Not with ref."},
	})
	requiresObject = newObject("requires", []Argument{
		{Name: "capabilities", Type: typeStrings, Doc: "Such as model or tools."},
		{Name: "tools", Type: typeStrings, Doc: "Tools by name."},
		{Name: "secrets", Type: typeStrings, Doc: "Secrets by name."},
	})
	defaultsObject = newObject("defaults", []Argument{
		{Name: "model", Type: typeString, Doc: "The model of steps that do not name one."},
		{Name: "timeout", Type: typeDuration, Doc: "The timeout of steps that call a model or a tool."},
		{Name: "retry", Type: typeRetries,
			Doc: "When to retry calls, by kind of adapter: model, tool, retriever, memory."},
	})
	limitsObject = newObject("limits", []Argument{
		{Name: "wall_time", Type: typeDuration, Doc: "How long the run may take."},
		{Name: "max_parallel", Type: typePositive,
			Doc: "How many calls of models and tools may run at the same time. " +
				"The limit of the host applies as well. Without either it is 8."},
		{Name: "tokens", Type: typePositive, Doc: "How many tokens all model calls may use together."},
		{Name: "cost_usd", Type: typeCost,
			Doc: "How many US dollars all model calls may cost together, at the host's prices."},
		{Name: "tool_calls", Type: typePositive, Doc: "How many tool calls steps and agents may make together."},
		{Name: "on_exceeded", Type: typeString, Allowed: []string{"fail", "pause"},
			Doc: "What happens when tokens, cost_usd, tool_calls or wall_time would be exceeded. Defaults to fail."},
	})
	stepLimitsObject = newObject("step.limits", []Argument{
		{Name: "wall_time", Type: typeDuration, Doc: "How long the step may take."},
		{Name: "tokens", Type: typePositive, Doc: "How many tokens the model calls may use together."},
		{Name: "cost_usd", Type: typeCost,
			Doc: "How many US dollars the model calls may cost together, at the host's prices."},
		{Name: "tool_calls", Type: typePositive, Doc: "How many tool calls the step may make."},
		{Name: "on_exceeded", Type: typeString, Allowed: []string{"fail", "pause"},
			Doc: "What happens when one of them would be exceeded. Defaults to fail."},
	})
	stepObject = newObject("step", []Argument{
		{Name: "uses", Type: typeString, Required: true,
			Doc: "A built-in kind, or the name of a tool, which contains a dot."},
		{Name: "with", Type: typeAny, Doc: "The arguments of the kind or the tool."},
		{Name: "needs", Type: typeStrings, Doc: "Ids of steps that must end first."},
		{Name: "when", Type: typeExpression, Doc: "Run the step only if this is true; otherwise skip it."},
		{Name: "trigger", Type: typeString,
			Allowed: []string{string(AllSuccess), string(NoneFailed), string(AllDone), string(AnySuccess)},
			Doc:     "How its needs must end for the step to run. Defaults to all_success."},
		{Name: "foreach", Type: typeForeach, Doc: "Run the step once for each item of a list."},
		{Name: "retry", Type: typeRetry, Doc: "When to retry the step's call of a model or a tool."},
		{Name: "timeout", Type: typeDuration, Doc: "How long the step may take."},
		{Name: "output", Type: typeOutput, Doc: "The shape and the size of the step's output."},
		{Name: "on_error", Type: typeOnError, Doc: "What a failure of the step does. Defaults to fail."},
		{Name: "on_indeterminate", Type: typeString,
			Allowed: []string{string(PauseIndeterminate), string(FailIndeterminate), string(ContinueIndeterminate)},
			Doc: "What happens if the outcome of a call with an external effect is unknown. " +
				"Defaults to pause; to continue if a race was lost or the run's time was over."},
		{Name: "rollback", Type: typeRollback, Doc: "How to undo the step when the run fails later."},
		{Name: "idempotency_key", Type: typeString, Doc: "Becomes part of the key that the tool gets."},
		{Name: "priority", Type: typeInteger,
			Doc: "Of steps that could start, the one with the higher number starts first. Defaults to 0."},
		{Name: "limits", Type: typeStepLimits, Doc: "Limits of this step, including its body."},
		{Name: "description", Type: typeString, Doc: "What the step is for."},
		{Name: "tags", Type: typeStrings, Doc: "Words to find the step by."},
	})
	foreachObject = newObject("foreach", []Argument{
		{Name: "in", Type: typeList, Required: true, Doc: "The items."},
		{Name: "as", Type: typeName, Doc: "The name of the item in expressions. Defaults to item."},
		{Name: "max_parallel", Type: typePositive,
			Doc: "How many items may run at the same time. Not given: as many as the run allows."},
		{Name: "on_error", Type: typeString, Allowed: []string{"fail", "collect"},
			Doc: "fail (default) stops at the first failure; " +
				"collect gives {status, output} or {status, error} for each item."},
		{Name: "max_items", Type: typePositive,
			Doc: "The maximum number of items; the step fails if the list has more. " +
				"Defaults to the limit of the host, 10,000."},
	})
	outputObject = newObject("output", []Argument{
		{Name: "schema", Type: typeSchema, Doc: "What the output must match; a model's answer is parsed as JSON."},
		{Name: "max_bytes", Type: typePositive,
			Doc: "The maximum size of the output in bytes of JSON. " +
				"The limit of the host, by default 4 MiB, applies too."},
		{Name: "check", Type: typeChecks, Doc: "Rules for the output, which come after the schema."},
		{Name: "repairs", Type: typeInteger,
			Doc: "How often a model or an agent may mend an answer that breaks the schema or a rule, 0 to 10. " +
				"Defaults to 2."},
	})
	checkObject = newObject("output.check", []Argument{
		{Name: "that", Type: typeExpression, Required: true, Doc: "The rule, in which output is the output."},
		{Name: "else", Type: typeString, Required: true, Doc: "What is wrong if the rule is broken; models read it."},
	})
	onErrorObject = newObject("on_error", []Argument{
		{Name: "set", Type: typeAny, Required: true, Doc: "The step counts as succeeded, with this output."},
	})
	retryObject = newObject("retry", []Argument{
		{Name: "max_attempts", Type: typePositive, Doc: "The maximum number of calls, including the first."},
		{Name: "backoff", Type: typeDuration, Doc: "The wait after the first call. It doubles after each further one."},
		{Name: "max_backoff", Type: typeDuration,
			Doc: "The longest wait, by doubling or by request of the server. Defaults to 5m."},
		{Name: "jitter", Type: typeString, Allowed: []string{"none", "full"},
			Doc: "full waits a random time from 0 to the delay."},
		{Name: "mode", Type: typeString, Allowed: []string{"wait", "pause"},
			Doc: "pause pauses the run for a long wait."},
		{Name: "retry_on", Type: typeReasons, Doc: "The reasons to retry. An empty list: none."},
		{Name: "when", Type: typeExpression,
			Doc: "Retry only after an error for which this is true. It reads error. Not given: after all."},
		{Name: "timeout", Type: typeDuration, Doc: "How long each attempt may take."},
	})
	retriesObject = newObject("defaults.retry", []Argument{
		{Name: "model", Type: typeRetry, Doc: "Calls of models."},
		{Name: "tool", Type: typeRetry, Doc: "Calls of tools."},
		{Name: "retriever", Type: typeRetry, Doc: "Calls of the retriever."},
		{Name: "memory", Type: typeRetry, Doc: "Calls of the memory."},
	})
	rollbackObject = newObject("rollback", []Argument{
		{Name: "uses", Type: typeString, Required: true, Doc: "The tool that undoes the step."},
		{Name: "with", Type: typeValues, Doc: "The arguments of the tool. They may read the step itself."},
	})
	onExpireObject = newObject("on_expire", []Argument{
		{Name: "set", Type: typeAny, Required: true, Doc: "The step succeeds with this output."},
	})
	fileObject = newArguments("file", []Argument{
		{Name: "file", Type: typeString, Required: true, Doc: "A text file, relative to the recipe's folder."},
	})
	messageObject = newArguments("message", []Argument{
		{Name: "role", Type: typeString, Allowed: []string{"system", "user", "assistant"}, Required: true,
			Doc: "Who speaks."},
		{Name: "text", Type: typeText, Required: true, Doc: "What is said."},
		{Name: "files", Type: typeLinks,
			Doc: "Images and other files of a user's message: paths, https or data URLs."},
	})
	agentObject = newObject("agent", []Argument{
		{Name: "model", Type: typeString, Doc: "The name of the model. May be an expression."},
		{Name: "instructions", Type: typeText, Doc: "The system prompt."},
		{Name: "tools", Type: typeToolNames,
			Doc: "The tools that it may call; all means every allowed tool. Not given: none."},
		{Name: "deny", Type: typeTools, Doc: "Tools that it must not call; takes precedence over tools."},
		{Name: "cwd", Type: typeString,
			Doc: "The folder for its calls of file.* and exec.run, relative to those of the host."},
		{Name: "max_steps", Type: typeThousand, Doc: "The maximum number of model calls. Defaults to 10."},
		{Name: "on_limit", Type: typeString, Allowed: []string{"fail"},
			Doc: "fail makes it an error to end without an answer: at max_steps, by repetition, with a refused, " +
				"empty or cut answer."},
		{Name: "on_repetition", Type: typeString, Allowed: []string{"stop", "fail", "go_on"},
			Doc: "What happens when it makes the same calls with the same results three times in a row. " +
				"Defaults to stop; with on_limit: fail, to fail."},
		{Name: "max_calls", Type: typePositive,
			Doc: "How many tool calls it may make, including its delegates and sub-agents. Defaults to 1000."},
		{Name: "max_calls_per_answer", Type: typePositive,
			Doc: "The maximum number of calls in one answer. Defaults to 64."},
		{Name: "until", Type: typeExpression, Doc: "Stop as soon as this is true."},
		{Name: "approval", Type: typeApproval, Doc: "Which tool calls need an approval. Defaults to never."},
		{Name: "approval_to", Type: typePeople,
			Doc: "People and groups who may approve its calls. Not given: anybody."},
		{Name: "on_indeterminate", Type: typeString, Allowed: []string{"pause", "report"},
			Doc: "What happens to a tool call that a crash interrupted: " +
				"the run pauses (default), or the model gets an error."},
		{Name: "delegates", Type: typeTexts, Doc: "Ids of agents that it may hand tasks to."},
		{Name: "handoffs", Type: typeStrings, Doc: "Ids of agents that may take over the conversation."},
		{Name: "max_handoffs", Type: typePositive,
			Doc: "The maximum number of hand-offs. Defaults to 10."},
		{Name: "subagents", Type: typeSubagents, Doc: "How many agents it may start itself; false: none."},
		{Name: "skills", Type: typeTexts, Doc: "Skills by name."},
		{Name: "memory", Type: typeMemory, Doc: "Which conversation it remembers."},
		{Name: "retrieve", Type: typeRetrieve, Doc: "Looks up documents for the task, by default 5."},
		{Name: "compact", Type: typeCompact, Doc: "When a summary replaces old messages. Not given: never."},
		{Name: "tool_concurrency", Type: typePositive, Doc: "How many tool calls may overlap. Defaults to 1."},
		{Name: "max_delegation_depth", Type: typeNatural, Doc: "How deeply delegates may be nested. Defaults to 3."},
		{Name: "temperature", Type: typeNumber, Doc: "How random answers are."},
		{Name: "max_tokens", Type: typePositive, Doc: "The maximum number of tokens of one answer."},
		{Name: "tool_choice", Type: typeString, Doc: "auto, none, required, or the tool that it must call first."},
		{Name: "description", Type: typeString, Doc: "What the agent is for."},
	})
	subagentsObject = newObject("subagents", []Argument{
		{Name: "max_active", Type: typePositive, Doc: "How many may be open at the same time. Defaults to 4."},
	})
	memoryObject = newObject("memory", []Argument{
		{Name: "thread", Type: typeString, Doc: "The name of the conversation."},
		{Name: "resource", Type: typeString, Doc: "Whom the conversation is with."},
		{Name: "inherit", Type: typeBoolean, Doc: "A delegate uses the memory of the agent that called it."},
	})
	retrieveObject = newObject("retrieve", []Argument{
		{Name: "top_k", Type: typePositive, Doc: "How many documents. Defaults to 5."},
	})
	compactObject = newObject("compact", []Argument{
		{Name: "above", Type: typePositive, Required: true,
			Doc: "The size of a request that needs a summary, in tokens of four bytes."},
		{Name: "keep", Type: typePositive, Doc: "How many of the last messages to keep. Defaults to 6."},
		{Name: "model", Type: typeString, Doc: "The model that writes the summary. Defaults to that of the agent."},
		{Name: "prompt", Type: typeText,
			Doc: "The prompt for the summary. Defaults to one for a summary to continue from."},
	})
	onEmptyObject = newObject("on_empty", []Argument{
		{Name: "set", Type: typeAny, Required: true, Doc: "The step succeeds with this output."},
	})
	branchObject = newArguments("body", bodyKeys(typeSomeSteps))
	caseObject   = newArguments("case", append([]Argument{
		{Name: "name", Type: typeString, Required: true, Doc: "The name of the case: like an id, and not default."},
		{Name: "when", Type: typeExpression, Required: true, Doc: "The case matches if this is true."},
	}, bodyKeys(typeSomeSteps)...))

	// bodyObject has the keys of a body, which stand directly in a kind's `with`.
	bodyObject    = newArguments("recipe", kind("recipe").Args)
	modelObject   = newArguments("model", kind("model").Args)
	failObject    = newArguments("fail", kind("fail").Args)
	humanObject   = newArguments("human", kind("human").Args)
	sayObject     = newArguments("say", kind("say").Args)
	waitObject    = newArguments("wait", kind("wait").Args)
	loopObject    = newArguments("loop", kind("loop").Args)
	forkObject    = newArguments("fork", kind("fork").Args)
	switchObject  = newArguments("switch", kind("switch").Args)
	sendObject    = newArguments("send", kind("send").Args)
	receiveObject = newArguments("receive", kind("receive").Args)
	searchObject  = newArguments("retrieve", kind("retrieve").Args)
	indexObject   = newArguments("index", kind("index").Args)
	taskObject    = newArguments("agent.task", kind("agent").Args)

	// objects lists those that stand inside others, but for the arguments of kinds.
	objects = []*object{toolObject, requiresObject, defaultsObject, limitsObject, stepObject,
		foreachObject, outputObject, checkObject, onErrorObject, messageObject, fileObject, agentObject,
		subagentsObject,
		memoryObject, retrieveObject, compactObject,
		retryObject, retriesObject, rollbackObject,
		onExpireObject, branchObject, caseObject, onEmptyObject, stepLimitsObject, filesObject,
		chunkObject, rerankObject, documentObject}
)

// bodyKeys are the keys of a body.
func bodyKeys(steps string) []Argument {
	return []Argument{
		{Name: "ref", Type: typeString, Doc: "A recipe file, relative to this one's folder. Either this or steps."},
		{Name: "inputs", Type: typeValues, Doc: "The inputs of the recipe in ref, which can read nothing else."},
		{Name: "steps", Type: steps,
			Doc: "Steps in place, which can also read the steps around them. Either this or ref."},
		{Name: "output", Type: typeAny, Doc: "The output of the steps in place. Defaults to null."},
	}
}

// effectWords are what a call of a tool does to the world.
var effectWords = []string{"read_only", "idempotent", "external"}

// channelKinds are the kinds of channels.
var channelKinds = []string{"value", "queue", "topic"}

// reasons are why calls fail, as far as retry is concerned.
var reasons = []string{"rate_limit", "5xx", "timeout", "network", "unknown"}

// approvals say whether a tool call of an agent needs a yes.
var approvals = []string{"never", "always", "pause", "refuse"}
