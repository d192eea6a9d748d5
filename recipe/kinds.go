package recipe

import "slices"

var kinds = []Kind{
	{Name: "set", Doc: "Gives a value: with is the value itself.", Output: "that value", without: noCalls},
	{
		Name: "model", Doc: "Asks a model once.",
		Output:  "{text}, or the object that output.schema describes",
		without: []refusal{noKey, noDoubt},
		Args: []Argument{
			{Name: "model", Type: typeString, Doc: "The model by name. Defaults to defaults.model."},
			{Name: "system", Type: typeText, Doc: "The system prompt."},
			{Name: "prompt", Type: typeText, Doc: "What the user says. Either this or messages."},
			{Name: "messages", Type: typeMessages, Doc: "A whole conversation. Either this or prompt."},
			{Name: "temperature", Type: typeNumber, Doc: "How free the answer is."},
			{Name: "max_tokens", Type: typePositive, Doc: "The most tokens of the answer."},
		},
	},
	{Name: "recipe", Doc: "Runs another recipe, or steps written in place.",
		Output: "the output of that recipe or of those steps", without: noCallsOfItsOwn, Args: bodyKeys(typeSteps)},
	{
		Name: "fail", Doc: "Fails on purpose: the steps in place around it, or the run.",
		Output:  "nothing",
		without: append(slices.Clone(noCalls), refusal{key: "rollback", hint: "a step that fails is not undone"}),
		Args: []Argument{
			{Name: "message", Type: typeString, Doc: "What went wrong."},
			{Name: "code", Type: typeString, Doc: "A word for programs to tell failures apart."},
		},
	},
	{
		Name: "human", Doc: "Asks a person and pauses the run until the answer arrives.",
		Output:  "{decision, form}",
		without: append(slices.Clone(noCalls), refusal{key: "timeout", hint: "give expires inside with"}),
		Args: []Argument{
			{Name: "prompt", Type: typeText, Required: true, Doc: "What the person is asked."},
			{Name: "show", Type: typeAny, Doc: "What the person needs to see."},
			{Name: "decisions", Type: typeWords, Doc: "What the person can decide. Defaults to approve and reject."},
			{Name: "form", Type: typeForm, Doc: "What the person fills in. No expressions."},
			{Name: "expires", Type: typeDuration,
				Doc: "How long the answer may take. Not given: forever. No expressions."},
			{Name: "on_expire", Type: typeOnExpire,
				Doc: "What happens then. reject, which must be one of the decisions, decides so. Defaults to fail."},
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
		Output:  "{text, steps, stop_reason}, or the object that output.schema describes",
		without: []refusal{noKey},
		Args: []Argument{
			{Name: "agent", Type: typeAgent,
				Doc: "The agent by id, or written in place. Not given: the only agent of the file."},
			{Name: "prompt", Type: typeText, Required: true, Doc: "The task."},
			{Name: "context", Type: typeAny, Doc: "What the agent has to know for it; goes before the task."},
		},
	},
	{
		Name: "loop", Doc: "Repeats steps until a condition holds.",
		Output:  "{last, iterations, reason}",
		without: noCallsOfItsOwn,
		Args: append(bodyKeys(typeSteps),
			Argument{Name: "until", Type: typeExpression,
				Doc: "Evaluated after each round: true ends the loop. Not given: all rounds run."},
			Argument{Name: "max_iterations", Type: typeThousand, Required: true, Doc: "The most rounds."},
			Argument{Name: "next", Type: typeValues,
				Doc: "With ref: the inputs from the second round on. Not given: inputs."},
			Argument{Name: "on_error", Type: typeString, Allowed: []string{"fail", "continue"},
				Doc: "fail (default) ends the loop at the first round that fails; continue starts the next round."},
			Argument{Name: "on_limit", Type: typeString, Allowed: []string{"fail"},
				Doc: "fail: it is an error if until is still false after the last round."},
		),
	},
	{
		Name: "fork", Doc: "Runs branches side by side.",
		Output:  "by branch name; race: {winner, output}; settle: {status, output} or {status, error} for each",
		without: noCallsOfItsOwn,
		Args: []Argument{
			{Name: "mode", Type: typeString, Allowed: []string{"all", "race", "settle"},
				Doc: "all (default) needs every branch, race takes the first that succeeds, " +
					"settle takes every end as it is."},
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
	{
		Name: "retrieve", Doc: "Looks up documents.", Output: "{documents}", without: []refusal{noKey, noDoubt},
		Args: []Argument{
			{Name: "query", Type: typeString, Required: true, Doc: "What to look for."},
			{Name: "top_k", Type: typeHundred, Doc: "The most documents. Defaults to 5. No expressions."},
		},
	},
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
