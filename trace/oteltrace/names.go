package oteltrace

// The names of spans, attributes and metrics. Those of OpenTelemetry are from the semantic
// conventions v1.41.1, the last release that had generative AI; the three metrics marked with * are
// from their new home, https://github.com/open-telemetry/semantic-conventions-genai, which has no
// release yet. Everything else is ours and begins with "braise.".
const (
	scope     = "github.com/braise-run/braise/trace/oteltrace"
	schemaURL = "https://opentelemetry.io/schemas/1.41.0"

	// Operations: values of genAIOperation, and the first words of the names of spans.
	opRun       = "invoke_workflow"
	opModel     = "chat"
	opAgent     = "invoke_agent"
	opTool      = "execute_tool"
	opRetrieval = "retrieval"
	opStep      = "step" // ours, in names only

	// What adapter.call has for "kind".
	kindModel     = "model"
	kindTool      = "tool"
	kindRetriever = "retriever"

	genAIOperation     = "gen_ai.operation.name"
	genAIWorkflow      = "gen_ai.workflow.name"
	genAIAgent         = "gen_ai.agent.name"
	genAIProvider      = "gen_ai.provider.name"
	genAIRequestModel  = "gen_ai.request.model"
	genAIResponseModel = "gen_ai.response.model"
	genAIFinish        = "gen_ai.response.finish_reasons"
	genAIInputTokens   = "gen_ai.usage.input_tokens"
	genAIOutputTokens  = "gen_ai.usage.output_tokens"
	genAICached        = "gen_ai.usage.cache_read.input_tokens"
	genAICacheWritten  = "gen_ai.usage.cache_creation.input_tokens"
	genAITokenType     = "gen_ai.token.type"
	genAITool          = "gen_ai.tool.name"
	genAIInput         = "gen_ai.input.messages"       // content
	genAIOutput        = "gen_ai.output.messages"      // content
	genAITools         = "gen_ai.tool.definitions"     // content
	genAIArguments     = "gen_ai.tool.call.arguments"  // content
	genAIResult        = "gen_ai.tool.call.result"     // content
	genAIQuery         = "gen_ai.retrieval.query.text" // content
	genAIDocuments     = "gen_ai.retrieval.documents"  // content
	errorType          = "error.type"
	exceptionEvent     = "exception"
	exceptionType      = "exception.type"
	exceptionMessage   = "exception.message" // content
	exceptionStack     = "exception.stacktrace"
	serviceName        = "service.name"
	serviceVersion     = "service.version"

	metricTokens        = "gen_ai.client.token.usage"
	metricModelDuration = "gen_ai.client.operation.duration"
	metricToolDuration  = "gen_ai.execute_tool.duration" // *
	metricAgentDuration = "gen_ai.invoke_agent.duration" // *
	metricRunDuration   = "gen_ai.workflow.duration"     // *
	metricStepDuration  = "braise.step.duration"

	braiseRunID     = "braise.run.id"
	braiseRunStatus = "braise.run.status"
	braiseResumed   = "braise.run.resumed"
	braiseRecovered = "braise.run.recovered"
	braiseFailed    = "braise.run.failed_step"
	braiseVersion   = "braise.recipe.version"
	braiseDigest    = "braise.recipe.digest"
	braiseStep      = "braise.step.path" // in metrics without the numbers of items and rounds
	braiseStatus    = "braise.step.status"
	braiseStop      = "braise.agent.stop_reason"
	braiseFrom      = "braise.fallback.from"
	braiseTo        = "braise.fallback.to"
	braiseHandoffBy = "braise.handoff.from"
	braiseHandoffTo = "braise.handoff.to"
	braiseReason    = "braise.step.reason"
	braiseModel     = "braise.model"
	braiseAttempts  = "braise.call.attempts"
	braiseLeftOut   = "braise.content.left_out" // an event
	braiseAttribute = "braise.content.attribute"
	braiseBytes     = "braise.content.bytes"

	// Values where the event has none.
	unknownProvider = "unknown"
	unknownError    = "_OTHER" // the name in the conventions
	cancelledError  = "cancelled"

	// Errors of calls that an agent did not make; the name of their tool in metrics.
	unknownTool  = "tool.unknown"
	tooManyCalls = "tool.limit"
	otherTool    = "_OTHER"
)

// The buckets that the conventions name. Steps have those of models and tools.
var (
	tokenBuckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384,
		65536, 262144, 1048576, 4194304, 16777216, 67108864}
	callBuckets     = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	workflowBuckets = []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200}
)

// retryNames are the attributes of the events adapter.retry and adapter.retry.exhausted, by the keys
// of their data.
var retryNames = []struct{ key, attribute string }{
	{"attempt", "braise.retry.attempt"},
	{"maxAttempts", "braise.retry.max_attempts"},
	{"delayMs", "braise.retry.delay_ms"},
	{"reason", "braise.retry.reason"},
	{"method", "braise.retry.method"},
}
