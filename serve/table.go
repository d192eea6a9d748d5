package serve

import (
	"net/http"
	"slices"

	"github.com/braise-run/braise/workflow"
)

// routes is the table of all routes, in the order in which docs/api.md has them.
func routes() []route {
	return slices.Concat(metaRoutes(), readRoutes(), runRoutes(), streamRoutes(), writeRoutes(), pauseRoutes())
}

func metaRoutes() []route {
	return []route{
		{method: "GET", path: prefix + "/me", name: "me", about: "The bearer of the token, and what it may do.",
			gives: []gift{{200, me{}, "", "The person."}}, fails: []int{401, 429}, do: (*call).me},
		{method: "POST", path: prefix + "/login", name: "login", about: "Exchange a token for a cookie.",
			takes: login{},
			gives: []gift{{200, me{}, "", "The person; the cookie is set."}}, fails: []int{401, 429},
			do: (*call).login},
		{method: "POST", path: prefix + "/logout", name: "logout", about: "Forget the cookie.",
			gives: []gift{{204, nil, "", "The cookie is gone."}}, do: (*call).logout},
		{method: "GET", path: prefix + "/openapi.json", name: "openapi",
			about: "The description of the API, OpenAPI 3.1.",
			gives: []gift{{200, node{}, "", "The description."}}, do: (*call).openapi},
		{method: "GET", path: prefix + "/schemas/{name}", name: "schema",
			about:  "A JSON Schema: `recipe`, `outcome`, `event`, or, with `braise serve`, `config`.",
			params: []param{inPath("name", "Which.")}, gives: []gift{{200, node{}, "", "The schema."}},
			fails: []int{404},
			do:    (*call).schema},
		{method: "GET", path: "/livez", name: "livez", about: "Whether the process lives.", open: true,
			gives: []gift{{200, state{}, "", "It does."}}, do: (*call).livez},
		{method: "GET", path: "/readyz", name: "readyz",
			about: "Whether to send requests to this process.", open: true,
			gives: []gift{{200, state{}, "", "Yes."}, {503, state{}, "",
				"It is about to end, or the store cannot be used."}},
			do: (*call).readyz},
		{method: "GET", path: "/metrics", name: "metrics",
			about: "Metrics. Needs the role read, unless the request comes from this machine.",
			gives: []gift{{200, nil, "text/plain", "The metrics."}}, fails: []int{401, 403, 429},
			do: (*call).metrics},
		{method: "POST", path: prefix + "/hooks/{trigger}", name: "hook", foreign: true,
			about:  "Start a run by a signed request.",
			params: []param{inPath("trigger", "The name of the trigger.")},
			gives:  []gift{{202, accepted{}, "", "The run is recorded."}},
			fails:  []int{401, 404, 409, 413, 422, 429}, do: (*call).hook},
	}
}

func readRoutes() []route {
	read := []Role{Read}
	return []route{
		{method: "GET", path: prefix + "/recipes", name: "listRecipes", roles: read,
			about: "The recipes that can be started.",
			gives: []gift{{200, recipeList{}, "", "The recipes."}}, do: (*call).listRecipes},
		{method: "GET", path: prefix + "/recipes/{name}", name: "showRecipe", roles: read,
			about:  "A recipe: its inputs, text, plan and diagnostics.",
			params: []param{inPath("name", "The recipe's name.")}, gives: []gift{{200, recipeView{}, "",
				"The recipe."}},
			fails: []int{404}, do: (*call).showRecipe},
		{method: "GET", path: prefix + "/plans/{digest}", name: "showPlan", roles: read,
			about: "The plan of the recipe of any run. It never changes.",
			params: []param{inPath("digest", "The digest of the recipe."),
				oneOf("draw", "A picture of it.", "json", "svg"),
				oneOf("dir", "The direction of edges. Defaults to TB, from top to bottom.", "TB", "LR"),
				texts("open", "The path of a step whose body is drawn; `.`: none. By default, all of up to 60 steps."),
				text("around", "The path of a step: only its neighbourhood is drawn."),
				number("hops", "The maximum distance from `around`, in edges. Defaults to 3.", 1, 1000)},
			gives: []gift{{200, plan{}, "", "The plan."}, {200, workflow.Drawing{}, "",
				"The picture, as positions and sizes."},
				{200, nil, "image/svg+xml", "The picture."}, {304, nil, "",
					"The plan has not changed."}},
			fails: []int{404, 422}, do: (*call).showPlan},
		{method: "GET", path: prefix + "/runs", name: "listRuns", roles: read, about: "Runs, the newest first.",
			params: append(append(runParams(), flag("oldest", "The oldest first."),
				flag("now", "Include what each run does, or waits for.")), pageParams()...),
			gives: []gift{{200, runs{}, "", "A page of the list."}}, do: (*call).listRuns},
	}
}

// runID is the parameter of all routes about one run.
var runID = inPath("id", "The id of the run.")

// runRoutes show one run.
func runRoutes() []route {
	id, read := runID, []Role{Read}
	path := inPath("path", "The path of the step, one segment: a slash in it is %2F.")
	return []route{
		{method: "GET", path: prefix + "/runs/{id}", name: "showRun", roles: read,
			about:  "A run: its steps, pauses, executions and who did what. Large values are omitted.",
			params: []param{id},
			gives: []gift{{200, runView{}, "", "The run."}, {304, nil, "",
				"The run has not changed."}}, fails: []int{404},
			do: (*call).showRun},
		{method: "GET", path: prefix + "/runs/{id}/steps/{path}", name: "showStep", roles: read,
			about:  "One step in full: its input, output, conversation and calls.",
			params: []param{id, path, flag("brief", "Omit values of more than 256 KiB: `large` has their sizes.")},
			gives:  []gift{{200, stepView{}, "", "The step."}}, fails: []int{404},
			do: (*call).showStep},
		{method: "GET", path: prefix + "/runs/{id}/steps/{path}/items", name: "showItems", roles: read,
			about: "The items of a foreach.",
			params: []param{id, path, oneOf("status", "Items with this status.", "pending", "running",
				"waiting", "succeeded",
				"failed", "skipped", "cancelled"), number("from", "The number of the first, from 0.", 0, 1<<31),
				number("limit", "How many. Defaults to 100.", 1, 1000)},
			gives: []gift{{200, steps{}, "", "A page of the items."}}, fails: []int{404}, do: (*call).showItems},
		{method: "GET", path: prefix + "/runs/{id}/output", name: "showOutput", roles: read,
			about: "The outcome of a run so far, without trace and tokens.", params: []param{id},
			gives: []gift{{200, outcome{}, "", "The outcome."}}, fails: []int{404}, do: (*call).showOutput},
		{method: "GET", path: prefix + "/runs/{id}/events", name: "showEvents", roles: read,
			about: "The events of a run: a page of them, or a stream with `Accept: text/event-stream`.",
			params: []param{id, number("after", "The number of the event before the first.", 0, 1<<53),
				number("limit", "How many events a page has. Defaults to 1000. Not for a stream.", 1, maxEvents),
				text("step", "The path of a step: only events of it and of what is in it. Not for a stream."),
				inHeader("Last-Event-ID", "The number of the last received event; takes precedence over `after`.")},
			gives: []gift{{200, events{}, "", "The events."}, {200, nil, "text/event-stream",
				"The events, as they happen."}},
			fails: []int{404, http.StatusTooManyRequests}, do: (*call).showEvents},
		{method: "GET", path: prefix + "/runs/{id}/journal", name: "showJournal", roles: []Role{Operate},
			about: "The records of a run, one per line, without the hashes of tokens.", params: []param{id},
			gives: []gift{{200, nil, "application/x-ndjson", "The records."}}, fails: []int{404},
			do: (*call).showJournal},
	}
}

// streamRoutes has the stream about several things.
func streamRoutes() []route {
	return []route{
		{method: "POST", path: prefix + "/stream", name: "streamSeveral", roles: []Role{Read}, takes: several{},
			about: "The events of several runs, and changes of the lists of runs and pauses, in one stream.",
			gives: []gift{{200, nil, "text/event-stream", "The events and changes."}}, fails: []int{429},
			do: (*call).streamSeveral},
	}
}

// writeRoutes begin, change and end runs.
func writeRoutes() []route {
	id, operate := runID, []Role{Operate}
	recorded := gift{202, accepted{}, "", "The request is recorded; a worker carries it out."}
	return []route{
		{method: "POST", path: prefix + "/recipes/{name}/runs", name: "startRun", roles: []Role{Start},
			about: "Start a run.",
			params: []param{inPath("name", "The recipe's name."), prefer,
				inHeader("Idempotency-Key",
					"At most 256 bytes. The same caller, recipe and key are one run, on any server.")},
			takes: start{}, gives: []gift{{202, accepted{}, "", "The run is recorded; a worker executes it."},
				{200, accepted{}, "", "The same key and inputs have already started this run."},
				{200, outcome{}, "", "With Prefer: how the run ended, or what it waits for."}},
			fails: []int{404, 409, 422, 429}, do: (*call).startRun},
		{method: "POST", path: prefix + "/runs/{id}/cancel", name: "cancelRun", roles: operate,
			about: "Cancel a run, and roll it back.", params: []param{id}, takes: cancelled{},
			gives: []gift{recorded},
			fails: []int{404, 409}, do: (*call).cancel},
		{method: "POST", path: prefix + "/runs/{id}/recover", name: "recoverRun", roles: operate,
			about: "Let a worker resume a run that was interrupted, or has no queue.", params: []param{id},
			gives: []gift{recorded}, fails: []int{404, 409}, do: (*call).recover},
		{method: "POST", path: prefix + "/runs/{id}/channels/{name}", name: "sendValue", roles: operate,
			about:  "Send a value to a channel of a run.",
			params: []param{id, inPath("name", "The channel's name.")}, takes: sent{}, gives: []gift{recorded},
			fails: []int{404, 409, 422}, do: (*call).sendValue},
		{method: "POST", path: prefix + "/runs/{id}/tell", name: "tellAgent", roles: operate,
			about:  "Leave a note for an agent.",
			params: []param{id}, takes: told{}, gives: []gift{recorded}, fails: []int{404, 409, 422},
			do: (*call).tell},
		{method: "POST", path: prefix + "/runs/{id}/fork", name: "forkRun", roles: operate,
			about: "Start a run that shares everything before a step with another one.",
			params: []param{id, prefer, inHeader("Idempotency-Key",
				"At most 256 bytes. The same caller, run and key are one fork, on any server.")}, takes: fork{},
			gives: []gift{{202, accepted{}, "", "The new run is recorded; a worker executes it."},
				{200, accepted{}, "", "The same key and edits have already started this run."},
				{200, forecast{}, "", "With `dry`: what would run again."},
				{200, outcome{}, "", "With Prefer: how the run ended, or what it waits for."}},
			fails: []int{404, 409, 422, 429}, do: (*call).forkRun},
		{method: "DELETE", path: prefix + "/runs/{id}", name: "deleteRun", roles: operate,
			about: "Delete a run that is not being executed.", params: []param{id}, gives: []gift{{204, nil, "",
				"The run is deleted."}},
			fails: []int{404, 409}, do: (*call).deleteRun},
		{method: "POST", path: prefix + "/prune", name: "pruneRuns", roles: operate,
			about: "Delete old runs that have ended.",
			takes: prune{}, gives: []gift{{200, pruned{}, "", "The number of deleted runs."}}, do: (*call).pruneRuns},
		{method: "POST", path: prefix + "/bulk", name: "bulkChange", roles: []Role{Answer, Operate},
			about: "Cancel or recover many runs, or give many pauses the same answer.", takes: bulk{},
			gives: []gift{{200, bulkResults{}, "", "The result for each."}}, do: (*call).bulkChange},
	}
}

var prefer = inHeader("Prefer",
	"`wait=N`: wait up to N seconds, 60 at most, for the end of the run or its next pause.")

// pauseRoutes show and answer pauses.
func pauseRoutes() []route {
	id, pauseID := runID, inPath("pause", "The id of the pause, one segment: a slash in it is %2F.")
	return []route{
		{method: "GET", path: prefix + "/pauses", name: "listPauses", roles: []Role{Read, Answer},
			about: "The pending pauses of all runs, the newest first. Pauses with an answer are not pending.",
			params: append([]param{oneOf("kind", "Pauses of this kind.", "human", "external", "system"),
				text("recipe", "Pauses of runs of this recipe."),
				flag("mine", "Only those that this person may answer, without those that end by themselves; "+
					"pages may have fewer than limit."),
				oneOf("sort", "The order: `newest` first, or the soonest to expire first.", "newest",
					"expiring")}, pageParams()...),
			gives: []gift{{200, pauses{}, "", "A page of the list."}}, do: (*call).listPauses},
		{method: "GET", path: prefix + "/runs/{id}/pauses/{pause}", name: "showPause", roles: []Role{Read, Answer},
			about:  "A pending pause. For another one, the error describes what happened to it.",
			params: []param{id, pauseID},
			gives:  []gift{{200, pause{}, "", "The pause."}}, fails: []int{404, 409}, do: (*call).showPause},
		{method: "POST", path: prefix + "/runs/{id}/pauses/{pause}/answer", name: "answerPause", roles: []Role{Answer},
			about: "Answer a pause.", params: []param{id, pauseID, prefer}, takes: answer{},
			gives: []gift{{202, accepted{}, "", "The answer is recorded; a worker resumes the run."},
				{200, accepted{}, "", "The same person gave the same answer before."},
				{200, outcome{}, "", "With Prefer: how the run ended, or what it waits for."}},
			fails: []int{404, 409, 422}, do: (*call).answerPause},
		{method: "POST", path: prefix + "/runs/{id}/pauses/{pause}/tokens", name: "mintToken", roles: []Role{Operate},
			about: "Make a token with which anybody can answer a pause.", params: []param{id, pauseID},
			gives: []gift{{200, minted{}, "", "The token, which is shown this once."}},
			fails: []int{404, 409}, do: (*call).mintToken},
		{method: "POST", path: prefix + "/token/look", name: "lookToken", about: "The pause of a token.",
			takes: bearer{},
			gives: []gift{{200, pause{}, "", "The pause."}}, fails: []int{409, 429}, do: (*call).lookToken},
		{method: "POST", path: prefix + "/token/answer", name: "answerToken",
			about: "Answer the pause of a token.", takes: answerBy{},
			gives: []gift{{202, accepted{}, "", "The answer is recorded; a worker resumes the run."}},
			fails: []int{409, 422, 429}, do: (*call).answerToken},
	}
}
