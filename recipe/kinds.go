package recipe

import "slices"

// Kind is a built-in kind of step.
type Kind struct {
	Name   string
	Doc    string     // a sentence
	Args   []Argument // the keys of `with`; nil: any value
	Output string     // what the step gives

	without []refusal // keys of steps that mean nothing for this kind
}

// refusal is a key that steps of a kind may not have, and what to do instead.
type refusal struct{ key, hint string }

// Refusals that several kinds share.
var (
	noCalls = []refusal{
		{key: "retry", hint: "only calls of models and tools are tried again"},
		{key: "limits", hint: "they are for steps that call a model or a tool, or have a body"},
		noKey, noUnknown,
	}
	noKey           = refusal{key: "idempotency_key", hint: "it is for steps that call a tool"}
	noUnknown       = refusal{key: "on_indeterminate", hint: "it is for steps that call a tool"}
	noCallsOfItsOwn = []refusal{
		{key: "retry", hint: "give it to the steps inside, or to all in defaults"},
		{key: "idempotency_key", hint: "give it to the steps inside"},
		{key: "on_indeterminate", hint: "give it to the steps inside"},
	}
)

var kinds = []Kind{
	{Name: "set", Doc: "Sets a value: with is the value itself.", Output: "that value", without: noCalls},
	{
		Name: "model", Doc: "Sends one request to a model.",
		Output:  "{text}, or the object that output.schema describes",
		without: []refusal{noKey, noUnknown},
		Args: []Argument{
			{Name: "model", Type: typeString, Doc: "The model by name. Defaults to defaults.model."},
			{Name: "system", Type: typeText, Doc: "The system prompt."},
			{Name: "prompt", Type: typeText, Doc: "What the user says. Without messages it is required."},
			{Name: "images", Type: typeLinks,
				Doc: "Images and other files for the prompt: paths, https or data URLs."},
			{Name: "messages", Type: typeMessages, Doc: "The conversation so far; the prompt comes last."},
			{Name: "temperature", Type: typeNumber, Doc: "How random the answer is."},
			{Name: "max_tokens", Type: typePositive, Doc: "The maximum number of tokens of the answer."},
		},
	},
	{Name: "recipe", Doc: "Runs another recipe, or steps written in place.",
		Output: "the output of that recipe or of those steps", without: noCallsOfItsOwn, Args: bodyKeys(typeSteps)},
	{
		Name: "fail", Doc: "Fails on purpose: it fails the body that contains it, or the run.",
		Output:  "nothing",
		without: append(slices.Clone(noCalls), refusal{key: "rollback", hint: "a step that fails is not undone"}),
		Args: []Argument{
			{Name: "message", Type: typeString, Doc: "What went wrong."},
			{Name: "code", Type: typeString, Doc: "A word for programs to tell failures apart."},
		},
	},
	{
		Name: "human", Doc: "Asks a person and pauses the run until the answer arrives.",
		Output:  "{decision, form}, or the answer that answer describes",
		without: append(slices.Clone(noCalls), refusal{key: "timeout", hint: "give expires inside with"}),
		Args: []Argument{
			{Name: "prompt", Type: typeText, Required: true, Doc: "The question to the person."},
			{Name: "show", Type: typeAny, Doc: "What the person needs to see for it."},
			{Name: "decisions", Type: typeWords, Doc: "The possible decisions. Defaults to approve and reject."},
			{Name: "form", Type: typeForm, Doc: "The fields that the person fills in, and no others unless" +
				" it has additionalProperties. No expressions."},
			{Name: "answer", Type: typeAnswer,
				Doc: "Ask for a value instead of a decision and a form. No expressions."},
			{Name: "to", Type: typePeople, Doc: "People and groups who may answer. Not given: anybody."},
			{Name: "four_eyes", Type: typeBoolean, Doc: "Whoever started the run may not answer. Defaults to false."},
			{Name: "expires", Type: typeDuration,
				Doc: "How long the answer may take. Not given: forever. No expressions."},
			{Name: "on_expire", Type: typeOnExpire,
				Doc: "What happens then. reject is a decision, which must be listed. Defaults to fail."},
		},
	},
	{
		Name: "say", Doc: "Reports something to whoever watches the run, once.",
		Output:  "{text, value}",
		without: append(slices.Clone(noCalls), refusal{key: "timeout", hint: "it takes no time"}),
		Args: []Argument{
			{Name: "text", Type: typeText, Required: true, Doc: "The text, for people."},
			{Name: "value", Type: typeAny, Doc: "A value, for programs. Defaults to null."},
		},
	},
	{
		Name: "wait", Doc: "Waits for a time or an event.",
		Output:  "the event's payload",
		without: append(slices.Clone(noCalls), refusal{key: "timeout", hint: "for an event, give timeout inside with"}),
		Args: []Argument{
			{Name: "duration", Type: typeDelay, Doc: "How long to wait."},
			{Name: "at", Type: typeTime, Doc: "When to continue, such as 2026-01-31T09:00:00Z (RFC 3339)."},
			{Name: "event", Type: typeWord, Doc: "The name of the event to wait for. No expressions."},
			{Name: "timeout", Type: typeDuration,
				Doc: "How long to wait for the event; then the step fails. Not given: forever. No expressions."},
		},
	},
	{
		Name: "agent", Doc: "Runs a model with tools until it answers.",
		Output:  "{text, steps, stop_reason}, or what output.schema describes",
		without: []refusal{noKey},
		Args: []Argument{
			{Name: "agent", Type: typeAgent,
				Doc: "The id of an agent, or an agent in place. Not given: the only agent of the file."},
			{Name: "prompt", Type: typeText, Doc: "The task. Without messages it is required."},
			{Name: "images", Type: typeLinks,
				Doc: "Images and other files for the prompt: paths, https or data URLs."},
			{Name: "messages", Type: typeMessages,
				Doc: "The conversation so far. Without a prompt the last message is the task."},
			{Name: "context", Type: typeAny, Doc: "Information that the agent gets before the task."},
		},
	},
	{
		Name: "loop", Doc: "Repeats steps until a condition is true.",
		Output:  "{last, iterations, reason}",
		without: noCallsOfItsOwn,
		Args: append(bodyKeys(typeSteps),
			Argument{Name: "over", Type: typeList, Doc: "A round for each item, one after the other."},
			Argument{Name: "as", Type: typeName, Doc: "With over: the name of the item. Defaults to item."},
			Argument{Name: "first", Type: typeAny, Doc: "The value of last in the first round. Defaults to null."},
			Argument{Name: "until", Type: typeExpression,
				Doc: "Evaluated after each round: true ends the loop. Not given: all rounds run."},
			Argument{Name: "max_iterations", Type: typeRounds,
				Doc: "The maximum number of rounds. Not given: 1000, which is an error without over."},
			Argument{Name: "wait", Type: typeDelay, Doc: "How long to wait between two rounds. Not given: not at all."},
			Argument{Name: "next", Type: typeValues,
				Doc: "With ref: the inputs from the second round on. Defaults to inputs."},
			Argument{Name: "on_error", Type: typeString, Allowed: []string{"fail", "continue"},
				Doc: "fail (default) ends the loop at the first round that fails; continue starts the next round."},
			Argument{Name: "on_limit", Type: typeString, Allowed: []string{"fail"},
				Doc: "fail makes it an error if until is still false after the last round."},
		),
	},
	{
		Name: "fork", Doc: "Runs branches in parallel.",
		Output:  "by branch name; race: {winner, output}; settle: {status, output} or {status, error} for each",
		without: noCallsOfItsOwn,
		Args: []Argument{
			{Name: "mode", Type: typeString, Allowed: []string{"all", "race", "settle"},
				Doc: "all (default) needs every branch, race takes the first that succeeds, " +
					"settle waits for all and reports how each ended."},
			{Name: "branches", Type: typeBranches, Required: true, Doc: "The branches, at least one."},
			{Name: "max_parallel", Type: typePositive,
				Doc: "How many branches may run at the same time. Not given: all."},
		},
	},
	{
		Name: "switch", Doc: "Runs the first case that matches.",
		Output:  "{case, output}; {case: null} if none matches and there is no default",
		without: noCallsOfItsOwn,
		Args: []Argument{
			{Name: "cases", Type: typeCases, Required: true, Doc: "The cases, at least one."},
			{Name: defaultCase, Type: typeBody, Doc: "What runs when no case matches."},
		},
	},
	{Name: "send", Doc: "Puts a value into a channel.", Output: "the value", without: noCalls, Args: []Argument{
		{Name: "channel", Type: typeWord, Required: true, Doc: "A channel of this file. No expressions."},
		{Name: "value", Type: typeAny, Required: true, Doc: "What to send."},
	}},
	{
		Name: "receive", Doc: "Takes a value out of a channel.",
		Output:  "the value",
		without: append(slices.Clone(noCalls), refusal{key: "timeout", hint: "give timeout inside with"}),
		Args: []Argument{
			{Name: "channel", Type: typeWord, Required: true, Doc: "A channel of this file. No expressions."},
			{Name: "timeout", Type: typeDuration,
				Doc: "How long to wait for a value; then the step fails. Not given: forever. No expressions."},
			{Name: "on_empty", Type: typeOnEmpty, Doc: "What happens when there is no value. Defaults to wait."},
		},
	},
	{Name: "retrieve", Doc: "Looks up documents.", Output: "{documents}", without: []refusal{noKey, noUnknown},
		Args: placeKeys},
	{Name: "index", Doc: "Puts documents into an index, where retrieve steps find them.",
		Output: "{added, updated, deleted, skipped}", without: []refusal{noKey, noUnknown}, Args: indexKeys},
}

// Kinds lists the built-in kinds of steps.
func Kinds() []Kind {
	list := slices.Clone(kinds)
	for i := range list {
		list[i].Args = slices.Clone(list[i].Args)
	}
	return list
}

// kind returns the kind of that name; its Name is "" when there is none.
func kind(name string) Kind {
	for _, k := range kinds {
		if k.Name == name {
			return k
		}
	}
	return Kind{}
}
