package diagnostics

// Code identifies a kind of diagnostic for machines. Codes are stable: one is never given a new meaning.
// Every code is declared here and explained in docs/diagnostics.md.
type Code string

// Codes of a recipe's, agent file's, script's or configuration's text.
const (
	CodeSyntax        Code = "yaml.syntax"        // the text is not YAML, or in a .json file not JSON
	CodeYAMLFeature   Code = "yaml.feature"       // aliases, anchors, merge keys, tags, several documents
	CodeDuplicateKey  Code = "yaml.duplicateKey"  // a key appears twice in one mapping
	CodeTooLarge      Code = "yaml.tooLarge"      // over a size, depth or node cap
	CodeUnknownKey    Code = "recipe.unknownKey"  // a key that the format does not have
	CodeMissingKey    Code = "recipe.missingKey"  // a required key is missing
	CodeWrongType     Code = "recipe.wrongType"   // a value of the wrong type
	CodeInvalidValue  Code = "recipe.invalid"     // a value of the right type that is not allowed
	CodeUnknownKind   Code = "recipe.unknownKind" // uses names neither a kind nor a tool
	CodeUnknownName   Code = "recipe.unknownName" // a step, agent or other declared thing that does not exist
	CodeDuplicateName Code = "recipe.duplicateName"
	CodeBadSchema     Code = "recipe.badSchema" // a JSON Schema that does not compile
	CodeFile          Code = "recipe.file"      // a referenced file is missing, unreadable or outside the root
	CodeRecursion     Code = "recipe.recursion" // a recipe that calls itself, or nesting over 64
	CodeCycle         Code = "recipe.cycle"     // steps that wait for each other
	CodeFrontMatter   Code = "agent.frontMatter"
)

// Codes of expressions.
const (
	CodeExprSyntax   Code = "expr.syntax"
	CodeExprName     Code = "expr.unknownName"
	CodeExprType     Code = "expr.type"
	CodeExprSecret   Code = "expr.secret"       // secrets.NAME where it is not allowed
	CodeExprBound    Code = "expr.bound"        // an expression larger than allowed
	CodeExprText     Code = "expr.suspicious"   // text that was probably meant as an expression
	CodeMaybeSkipped Code = "expr.maybeSkipped" // reads the output of a step that may be skipped, without ?.
	CodeNeverTrue    Code = "expr.neverTrue"    // a condition that no step with this trigger can fulfil
)

// Codes of what a run needs and does.
const (
	CodeMissingModel      Code = "model.missing"
	CodeNoBatch           Code = "model.noBatch" // a call cannot wait for a model that answers in batches
	CodeBatchUnknown      Code = "batch.unknown" // it is not known whether a batch was sent
	CodeModelOption       Code = "model.option"  // an option that a model does not take
	CodeMissingPrice      Code = "price.missing" // of a model that a limit of cost is for
	CodeMissingTool       Code = "tool.missing"
	CodeMissingSecret     Code = "secret.missing"
	CodeMissingRetriever  Code = "retriever.missing"
	CodeMissingReranker   Code = "reranker.missing"
	CodeReadOnly          Code = "index.readOnly" // an index step for a retriever that nothing can be put into
	CodeNoFiles           Code = "files.missing"  // a step reads files, and the host lets recipes read none
	CodeMissingCapability Code = "capability.missing"
	CodeShadowedTool      Code = "tool.shadowed"
	CodeArguments         Code = "tool.arguments" // arguments that do not fit the tool's schema
	CodeInput             Code = "input.invalid"  // inputs that are unknown, missing or do not match their schema
	CodeStrict            Code = "strict.failed"
	CodeSinkFailed        Code = "sink.failed"
	CodeStepFailed        Code = "step.failed" // a failure beside the one that decided the run's error
)

// Codes of plugins and of what they offer.
const (
	CodeUnknownProvider   Code = "provider.unknown"             // a choice of a provider that offers no such thing
	CodeProviderConflict  Code = "provider.conflict"            // two plugins offer one thing, and none is chosen
	CodePluginDropped     Code = "plugin.dropped"               // the slot of a plugin is taken
	CodeNoOverride        Code = "plugin.overridesNothing"      // nobody has the slot that a plugin overrides
	CodePluginRequirement Code = "plugin.requirement"           // what a plugin requires is not configured
	CodeNotScheduled      Code = "plugin.lifecycleNotScheduled" // a hook at a point that the recipe never reaches
	CodeHookFailed        Code = "plugin.hookFailed"            // a hook failed or panicked where it cannot deny
)

// Codes of agents.
const (
	CodeAmbiguousAgent Code = "agent.selectionAmbiguous" // a step names none of several agents
	CodeUnknownAgent   Code = "agent.unknown"
	CodeUnknownTool    Code = "agent.unknownTool"    // a name in tools, approval or deny that matches no tool
	CodeNoApprover     Code = "agent.noApprover"     // calls need an approval that nobody can give
	CodeMaxSteps       Code = "agent.maxSteps"       // an agent was stopped at its last step
	CodeRepetition     Code = "agent.repetition"     // an agent was stopped because it repeated itself
	CodeRefused        Code = "agent.refused"        // an agent was stopped because all its calls were refused
	CodeNoAction       Code = "agent.noAction"       // an agent's model said nothing
	CodeAnswerCut      Code = "answer.cut"           // a model's answer was cut at its token limit
	CodeCompactFailed  Code = "agent.compactFailed"  // a conversation was not summarised
	CodeNoArchive      Code = "agent.archiveMissing" // the summary of a conversation is gone
	CodeLayerDisabled  Code = "agent.layerDisabled"  // a memory layer failed
	CodeSkillFlaw      Code = "agent.skillFlaw"      // a skill without a name, a path or a hash was loaded
)

// Codes of resuming runs, and of repeated calls.
const (
	CodeNoResume        Code = "resume.noAdapter"         // a run may wait for an answer that would be refused
	CodeResumeRefused   Code = "resume.refused"           // the resume adapter did not take an answer
	CodeChanged         Code = "resume.definitionChanged" // a run began with another definition
	CodeInvalidToken    Code = "resume.invalidToken"      // a token that is unknown, used or expired
	CodeQuestionChanged Code = "resume.questionChanged"   // an answer is for another question than is asked now
	CodeSkillMismatch   Code = "resume.skillMismatch"     // an agent's skills have changed since it began
	CodeRetryExhausted  Code = "adapter.retry.exhausted"  // a call failed as often as its policy allows
	CodeCallUnknown     Code = "call.unknown"             // a call was cut off, and may have had its effect
	CodeRollbackFailed  Code = "rollback.failed"          // what a step did could not be undone
	CodeFinallyFailed   Code = "finally.failed"           // steps of finally failed, which changes nothing for the run
	CodeStoreClock      Code = "store.clock"              // the clock of the store cannot be read
	CodeDryRun          Code = "run.dry"                  // calls with an effect were not made
	CodeNotifyFailed    Code = "notify.failed"            // somebody was not notified of a pause or an end
	CodePartialHistory  Code = "history.partial"          // a journal that cannot be replayed shows only some steps
)
