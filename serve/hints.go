package serve

const nothingLeft = "there is nothing left to answer; GET " + prefix + "/runs/{id} shows what became of the run"

// hints say what to do about errors of 4xx whose own text does not, by code.
var hints = map[string]string{
	"request.parameter": "GET " + prefix + "/openapi.json has the parameters of each route",
	"request.body":      "GET " + prefix + "/openapi.json says what the body of each route has",
	"request.tooLarge":  "send less, or raise the limit of the server for bodies",
	"access.proxy":      "the proxy must set the header, and take off what others have sent in it",
	"access.recipe":     "ask the operator of the server for a token that sees more",

	"run.notFound":    "GET " + prefix + "/runs lists the runs that there are",
	"run.exists":      "send another runId, or none",
	"run.ended":       "GET " + prefix + "/runs/{id}/output has how it ended; start another run, or a fork",
	"run.busy":        "send the request again when the run waits or has ended: a process executes it",
	"run.fenced":      "another process has taken the run: send the request again",
	"run.invalid":     "an id has up to 128 letters, digits, and - _ .",
	"recipe.unknown":  "GET " + prefix + "/recipes has all",
	"input.invalid":   "GET " + prefix + "/recipes/{name} has the schema of the inputs",
	"model.missing":   "configure it where runs are executed, or choose the queue of a worker that has it",
	"tool.missing":    "configure it where runs are executed, or choose the queue of a worker that has it",
	"secret.missing":  "configure it where runs are executed, or choose the queue of a worker that has it",
	"expr.failed":     "correct the values that the expression reads, or the expression",
	"signal.exists":   "it was recorded before: there is nothing to do",
	"signal.invalid":  "see in the plan of the run which steps, and of which kinds, it has",
	"channel.unknown": "the channels of the run stand in its recipe",
	"channel.closed":  "the run is over: start another one",
	"channel.full":    "send the value again when the run has taken some",

	"answer.unfit":             "GET " + prefix + "/runs/{id}/pauses/{pause} has what the pause takes",
	"answer.notAllowed":        "ask somebody to answer whom the pause names",
	"call.alive":               "end the processes of the call, or answer with force",
	"pause.answered":           nothingLeft,
	"pause.expired":            nothingLeft,
	"resume.invalidToken":      "ask for another one; the operator of the server can make it",
	"resume.questionChanged":   "read the pause again, and answer what it asks now",
	"resume.definitionChanged": "the run goes on under its own recipe: leave the other one out",
	"resume.needsWorkflow":     "the recipe was made by a program: only that program can do this",

	"hook.unknown":   "the path ends with the name of a trigger of the server",
	"hook.signature": "sign the body as it is sent, with the secret of the trigger, and send it at once",
	"hook.body":      "send JSON, and sign what is sent",
}
