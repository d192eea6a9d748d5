package diagnostics

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// WriteGitHub writes the list, in its order, as workflow commands, which GitHub Actions shows
// beside the lines of a pull request: one line each, with the code as title and the hint as the
// message's second line. Files should be named from the repository's root.
//
// https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
func WriteGitHub(w io.Writer, list List) error {
	var b strings.Builder
	for _, d := range list {
		b.WriteString("::" + levelName(d.Level) + " ")
		if d.Position.File != "" {
			b.WriteString("file=" + gitHubProperty.Replace(d.Position.File) + ",")
		}
		if d.Position.Line > 0 {
			fmt.Fprintf(&b, "line=%d,", d.Position.Line)
		}
		if d.Position.Column > 0 {
			fmt.Fprintf(&b, "col=%d,", d.Position.Column)
		}
		b.WriteString("title=" + gitHubProperty.Replace(string(d.Code)) + "::" +
			gitHubMessage.Replace(d.withHint()) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// What GitHub takes for syntax: in a message, and in a property, where more is.
var (
	gitHubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	gitHubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// levelName is a level as GitHub and SARIF call it.
func levelName(l Level) string {
	if l == Warn {
		return "warning"
	}
	return "error"
}

// withHint is the message, with the hint on a second line.
func (d Diagnostic) withHint() string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + "\nhint: " + d.Hint
}

// WriteSARIF writes the list as a SARIF 2.1.0 log of one run, for code scanning and editors: a
// result for each diagnostic, in the list's order, and a rule for each code that occurs, sorted. tool
// and version name the program whose diagnostics they are; an empty version is left out.
func WriteSARIF(w io.Writer, list List, tool, version string) error {
	var codes []Code
	for _, d := range list {
		codes = append(codes, d.Code)
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)

	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}} // as Position counts
	run.Tool.Driver = sarifDriver{tool, version, []sarifRule{}}
	for _, code := range codes {
		text := summaries[code]
		if text == "" { // a code that is not ours
			text = string(code)
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{code, sarifText{text}})
	}
	for _, d := range list {
		index, _ := slices.BinarySearch(codes, d.Code)
		result := sarifResult{RuleID: d.Code, RuleIndex: index, Level: levelName(d.Level),
			Message: sarifText{d.withHint()}}
		if d.Position.File != "" {
			result.Locations = []sarifLocation{locate(d.Position)}
		}
		run.Results = append(run.Results, result)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// The parts of a SARIF log that we write.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               Code      `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    Code            `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

func locate(pos Position) sarifLocation {
	var l sarifLocation
	file := url.URL{Path: pos.File}
	if strings.HasPrefix(pos.File, "/") {
		file.Scheme = "file"
	}
	l.Physical.Artifact.URI = file.String()
	if pos.Line > 0 {
		l.Physical.Region = &sarifRegion{pos.Line, pos.Column}
	}
	return l
}

// summaries says in a few words what each code means.
var summaries = map[Code]string{
	CodeSyntax:        "The text is not YAML.",
	CodeYAMLFeature:   "A feature of YAML that is not allowed.",
	CodeDuplicateKey:  "A key appears twice in one mapping.",
	CodeTooLarge:      "The text is too large or nested too deeply.",
	CodeUnknownKey:    "A key that the format does not have.",
	CodeMissingKey:    "A required key is missing.",
	CodeWrongType:     "A value has the wrong type.",
	CodeInvalidValue:  "A value is not allowed.",
	CodeUnknownKind:   "A step uses neither a kind nor a tool.",
	CodeUnknownName:   "A name that is declared nowhere.",
	CodeDuplicateName: "A name is declared twice.",
	CodeBadSchema:     "A JSON Schema that does not compile.",
	CodeFile:          "A file is missing, unreadable or outside its folder.",
	CodeRecursion:     "A recipe calls itself, or recipes are nested too deeply.",
	CodeCycle:         "Steps wait for each other.",
	CodeFrontMatter:   "The front matter of an agent file is wrong.",

	CodeExprSyntax:   "An expression cannot be parsed.",
	CodeExprName:     "An expression uses an unknown name.",
	CodeExprType:     "An expression uses a value of the wrong type.",
	CodeExprSecret:   "A secret stands where it is not allowed.",
	CodeExprBound:    "An expression is larger than allowed.",
	CodeExprText:     "Text that was probably meant as an expression.",
	CodeMaybeSkipped: "The output of a step that may be skipped is read without \"?.\".",
	CodeNeverTrue:    "A condition can never be true under the trigger of its step.",

	CodeMissingModel:      "A model is missing.",
	CodeNoBatch:           "A call cannot wait for a model that answers in batches.",
	CodeBatchUnknown:      "It is not known whether a batch was sent to the provider of a model.",
	CodeModelOption:       "A model does not take an option.",
	CodeMissingPrice:      "A model has no price, and a limit of cost needs one.",
	CodeMissingTool:       "A tool is missing.",
	CodeMissingSecret:     "A secret is missing.",
	CodeMissingRetriever:  "A retriever is missing.",
	CodeMissingReranker:   "A reranker is missing.",
	CodeReadOnly:          "Nothing can be put into a retriever.",
	CodeNoFiles:           "No files may be read.",
	CodeMissingCapability: "A capability is missing.",
	CodeShadowedTool:      "A tool is hidden by another of its name.",
	CodeArguments:         "Arguments do not fit the schema of their tool.",
	CodeInput:             "Inputs are unknown, missing or do not match their schema.",
	CodeStrict:            "Diagnostics stop the run in strict mode.",
	CodeSinkFailed:        "A trace sink failed.",
	CodeStepFailed:        "A failure beside the one that decided the run's error.",
	CodeUnknownProvider:   "A provider is chosen that does not offer what it is chosen for.",
	CodeProviderConflict:  "Two plugins offer one thing, and nobody chose.",
	CodePluginDropped:     "The slot of a plugin is taken.",
	CodeNoOverride:        "Nobody has the slot that a plugin overrides.",
	CodePluginRequirement: "What a plugin requires is not configured.",
	CodeNotScheduled:      "A hook is at a point that the recipe never comes by.",
	CodeHookFailed:        "A hook failed where it only observes.",

	CodeAmbiguousAgent: "A step names none of several agents.",
	CodeUnknownAgent:   "A step names an unknown agent.",
	CodeUnknownTool:    "A name in tools, approval or deny matches no tool.",
	CodeNoApprover:     "Calls of an agent need an approval that nobody can give.",
	CodeMaxSteps:       "An agent was stopped at its last step.",
	CodeRepetition:     "An agent was stopped because it went round in circles.",
	CodeRefused:        "An agent was stopped because all calls that it asked for were refused.",
	CodeNoAction:       "The model of an agent said nothing, or called no tool although it said so.",
	CodeAnswerCut:      "The answer of a model was cut: it hit its token limit.",
	CodeCompactFailed:  "A conversation was not summarised.",
	CodeNoArchive:      "The summary of a conversation is gone.",
	CodeLayerDisabled:  "A memory layer failed.",
	CodeSkillFlaw:      "A skill without a name, a path or a hash was loaded.",

	CodeInvalidToken:    "A token is unknown, used or expired.",
	CodeResumeRefused:   "The resume adapter did not take an answer.",
	CodeChanged:         "A run began with another definition of its recipe.",
	CodeNoResume:        "A run may wait for an answer, and there is no resume adapter.",
	CodeStoreClock:      "The clock of the store cannot be read.",
	CodeDryRun:          "The run was a dry run.",
	CodeNotifyFailed:    "A notification about a run failed.",
	CodePartialHistory:  "What is shown of a run is only what its records tell.",
	CodeQuestionChanged: "An answer is for another question than is asked now.",
	CodeSkillMismatch:   "The skills of an agent have changed since it began.",
	CodeRetryExhausted:  "A call failed as often as its policy allows.",
	CodeCallUnknown:     "A call was interrupted, and its outcome is unknown.",
	CodeRollbackFailed:  "What a step did could not be undone.",
	CodeFinallyFailed:   "Steps of finally failed, which changes nothing for the run.",
}
