package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A node is a part of a JSON Schema.
type node = map[string]any

// typeSchemas gives every type of the table its JSON Schema. Objects are in $defs, by name.
var typeSchemas = map[string]node{
	typeAny:     {},
	typeBoolean: {"type": "boolean"},
	typeString:  {"type": "string"},
	typeName:    {"type": "string", "pattern": itemName.String()},
	typeText:    {"anyOf": []any{node{"type": "string"}, def(fileObject)}},
	typeStrings: {"type": "array", "items": node{"type": "string", "minLength": 1}},
	typeTools:   {"type": "array", "items": node{"type": "string"}},
	typeToolNames: {"anyOf": []any{
		node{"type": "array", "items": node{"type": "string"}}, node{"const": AllTools}, template,
	}},
	typeTexts:      {"anyOf": []any{node{"type": "array", "items": node{"type": "string", "minLength": 1}}, template}},
	typeInteger:    {"type": "integer"},
	typePositive:   {"type": "integer", "minimum": 1},
	typeNatural:    {"type": "integer", "minimum": 0},
	typeThousand:   {"type": "integer", "minimum": 1, "maximum": 1000},
	typeRounds:     {"anyOf": []any{node{"type": "integer", "minimum": 1, "maximum": 1000}, template}},
	typeHundred:    {"type": "integer", "minimum": 1, "maximum": 100},
	typeCost:       {"type": "number", "exclusiveMinimum": 0},
	typeNumber:     {"type": "number"},
	typeDuration:   {"type": "string", "pattern": durationPattern},
	typeExpression: {"type": []any{"string", "boolean"}, "minLength": 1},
	typeSchema:     {"anyOf": []any{node{"type": "object"}, node{"const": true}}},
	typeInputs: {"type": "object",
		"additionalProperties": node{"anyOf": []any{node{"type": "object"}, node{"enum": anys(typeNames)}}}},
	typeConsts: {"type": "object"},
	typeValues: {"anyOf": []any{node{"type": "object"}, template}},
	typeAgents: {"type": "object", "additionalProperties": def(agentObject)},
	typeOwnTools: {"type": "object", "propertyNames": node{"pattern": toolName.String(), "maxLength": 48},
		"additionalProperties": def(toolObject)},
	typeSteps: {"type": "object", "minProperties": 1, "propertyNames": node{"pattern": stepID.String()},
		"additionalProperties": def(stepObject)},
	typeSomeSteps: {"type": "object", "propertyNames": node{"pattern": stepID.String()},
		"additionalProperties": def(stepObject)},
	typeBody: def(branchObject),
	typeBranches: {"type": "object", "minProperties": 1, "propertyNames": node{"pattern": stepID.String()},
		"additionalProperties": def(branchObject)},
	typeCases: {"type": "array", "minItems": 1, "items": def(caseObject)},
	typeChannels: {"type": "object", "propertyNames": node{"pattern": wordPattern.String()},
		"additionalProperties": node{"enum": anys(channelKinds)}},
	typeList:     {"anyOf": []any{node{"type": "array"}, template}},
	typeOnError:  {"anyOf": []any{node{"enum": []any{"fail", "continue"}}, def(onErrorObject)}},
	typeMessages: {"anyOf": []any{node{"type": "array", "items": def(messageObject)}, template}},
	typePeople: {"anyOf": []any{
		node{"type": "array", "minItems": 1, "uniqueItems": true, "items": node{"type": "string", "minLength": 1}},
		template,
	}},
	typeApproval:  {"anyOf": []any{approvalWord, node{"type": "object", "additionalProperties": approvalWord}}},
	typeSubagents: {"anyOf": []any{node{"const": false}, def(subagentsObject)}},
	typeAgent:     {"anyOf": []any{node{"type": "string"}, def(agentObject)}},
	typeMemory:    {"anyOf": []any{node{"const": "inherit"}, def(memoryObject)}},
	typeRetrieve:  def(retrieveObject),
	typeCompact:   def(compactObject),
	typeRerank:    def(rerankObject),
	typeFiles:     def(filesObject),
	typeChunk:     def(chunkObject),
	typeDocuments: {"anyOf": []any{node{"type": "array", "items": node{"anyOf": []any{def(documentObject), template}}},
		template}},
	typeLinks: {"anyOf": []any{node{"type": "array", "minItems": 1,
		"items": node{"type": "string", "pattern": `^(https://|data:)|\$\{\{|^[^:/][^:]*$`}}, template}},
	typeRequires:   def(requiresObject),
	typeDefaults:   def(defaultsObject),
	typeLimits:     def(limitsObject),
	typeStepLimits: def(stepLimitsObject),
	typeForeach:    def(foreachObject),
	typeOutput:     def(outputObject),
	typeChecks:     {"type": "array", "minItems": 1, "items": def(checkObject)},
	typeRetry:      def(retryObject),
	typeRetries:    def(retriesObject),
	typeRollback:   def(rollbackObject),
	typeReasons:    {"type": "array", "items": node{"enum": anys(reasons)}},
	typeWord:       word,
	typeWords:      {"type": "array", "items": word, "minItems": 1, "uniqueItems": true},
	typeForm:       {"type": "object", "required": []any{"type"}, "properties": node{"type": node{"const": "object"}}},
	typeAnswer:     {"anyOf": []any{node{"type": "object"}, node{"enum": anys(typeNames)}}},
	typeOnExpire:   {"anyOf": []any{node{"enum": []any{"fail", "reject"}}, def(onExpireObject)}},
	typeOnEmpty:    {"anyOf": []any{node{"enum": []any{"wait", "fail"}}, def(onEmptyObject)}},
	typeDelay:      {"anyOf": []any{node{"type": "string", "pattern": durationPattern}, template}},
	typeTime: {"anyOf": []any{
		node{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T.*[0-9Z]$`},
		template,
	}},
}

const durationPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d)([0-9.]+(ns|us|µs|ms|s|m|h|d))*$`

var (
	approvalWord = node{"enum": anys(approvals)}
	word         = node{"type": "string", "pattern": wordPattern.String()}
	template     = node{"type": "string", "pattern": `\$\{\{`}
)

// Schema returns the JSON Schema (2020-12) of recipe files, as indented JSON that ends in a line
// break. It describes what this version runs. Editors use it; [Parse] finds more.
func Schema() []byte {
	defs := node{}
	for _, o := range objects {
		defs[o.name] = o.schema(false)
	}
	defs[stepObject.name].(node)["allOf"] = withSchemas()
	root := topObject.schema(false)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Braise recipe, " + APIVersion
	root["$defs"] = defs
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		panic("recipe: the schema is JSON: " + err.Error())
	}
	return b.Bytes()
}

// schema describes the object; with templates, any value may also be an expression.
func (o *object) schema(templates bool) node {
	properties, required := node{}, []any{}
	for _, key := range o.keys {
		s := node{}
		for k, v := range typeSchemas[key.Type] {
			s[k] = v
		}
		if key.Allowed != nil {
			s["enum"] = anys(key.Allowed)
		}
		if key.Required {
			required = append(required, key.Name)
		}
		if templates && key.Type != typeAny && key.Type != typeString && key.Type != typeWord {
			s = node{"anyOf": []any{s, template}}
		}
		s["description"] = key.Doc
		properties[key.Name] = s
	}
	s := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	switch {
	case o == toolObject:
		s["oneOf"] = []any{
			node{"required": []any{"ref"}, "properties": node{"output": false, "inputs": false}},
			node{"required": []any{"steps", "description"}},
		}
	case o.key("ref") != nil:
		s["oneOf"] = []any{
			node{"required": []any{"ref"}, "properties": node{"output": false}},
			node{"required": []any{"steps"}, "properties": node{"inputs": false}},
		}
	}
	if o.open {
		s["patternProperties"] = node{"^x-": node{}}
	}
	return s
}

// withSchemas says what `uses` may be, and what `with` must be for it.
func withSchemas() []any {
	var built []any
	all := []any{}
	for _, k := range kinds {
		built = append(built, k.Name)
		all = append(all, node{"if": uses(node{"const": k.Name}), "then": kindSchema(k)})
	}
	tool := node{"type": "string", "pattern": `^[^ \t\n]*\.[^ \t\n]*$`}
	return append(all,
		node{"properties": node{"uses": node{"anyOf": []any{node{"enum": built}, tool}}}},
		node{"if": uses(tool),
			"then": node{"properties": node{"with": node{"anyOf": []any{node{"type": "object"}, template}}}}})
}

func uses(s node) node { return node{"required": []any{"uses"}, "properties": node{"uses": s}} }

// somethingSaid says that a model is asked something.
var somethingSaid = []any{node{"required": []any{"prompt"}}, node{"required": []any{"messages"},
	"properties": node{"messages": node{"not": node{"type": "array", "maxItems": 0}}}}}

// kindSchema describes a step of a built-in kind beyond what holds for every step.
func kindSchema(k Kind) node {
	with := node{}
	switch k.Name {
	case "model":
		with = modelObject.schema(true)
		with["anyOf"] = somethingSaid
		with["dependentRequired"] = node{"images": []any{"prompt"}}
	case "agent":
		with = taskObject.schema(true)
		with["anyOf"] = somethingSaid
		with["properties"].(node)["messages"].(node)["items"] = node{"properties": node{"files": false}}
	case "recipe":
		with = bodyObject.schema(false)
	case "loop":
		with = loopObject.schema(false)
		with["anyOf"] = []any{node{"required": []any{"max_iterations"}}, node{"required": []any{"until"}},
			node{"required": []any{"over"}}}
		with["dependentRequired"] = node{"next": []any{"ref"}, "as": []any{"over"}, "on_limit": []any{"until"}}
		with["dependentSchemas"] = node{"on_limit": node{"anyOf": []any{node{"required": []any{"max_iterations"}},
			node{"not": node{"required": []any{"over"}}}}}}
	case "fork":
		with = forkObject.schema(false)
	case "switch":
		with = switchObject.schema(false)
	case "send":
		with = sendObject.schema(false)
	case "receive":
		with = receiveObject.schema(false)
		with["dependentSchemas"] = node{"timeout": node{"properties": node{"on_empty": node{"const": "wait"}}}}
	case "retrieve":
		with = searchObject.schema(false)
	case "index":
		with = indexObject.schema(false)
		with["oneOf"] = []any{node{"required": []any{"files"}}, node{"required": []any{"documents"}}}
	case "fail":
		with = failObject.schema(true)
	case "human":
		with = humanObject.schema(false)
		with["dependentRequired"] = node{"on_expire": []any{"expires"}}
		with["dependentSchemas"] = node{"answer": node{"properties": node{"decisions": false, "form": false,
			"on_expire": node{"not": node{"const": "reject"}}}}}
	case "say":
		with = sayObject.schema(true)
	case "wait":
		with = waitObject.schema(false)
		with["oneOf"] = []any{
			node{"required": []any{"duration"}},
			node{"required": []any{"at"}},
			node{"required": []any{"event"}},
		}
		with["dependentRequired"] = node{"timeout": []any{"event"}}
	}
	properties := node{"with": with}
	for _, r := range k.without {
		properties[r.key] = false
	}
	if k.Name == "fail" {
		return node{"properties": properties}
	}
	return node{"required": []any{"with"}, "properties": properties}
}

func def(o *object) node { return node{"$ref": fmt.Sprintf("#/$defs/%s", o.name)} }

func anys(words []string) []any {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	return list
}
