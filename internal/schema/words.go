package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// types are the types of JSON Schema.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// otherNames are what other languages call types.
var otherNames = map[string]string{"bool": "boolean", "int": "integer", "long": "integer", "float": "number",
	"double": "number", "decimal": "number", "str": "string", "text": "string", "list": "array", "tuple": "array",
	"dict": "object", "map": "object", "none": "null", "nil": "null"}

// NotAType says that a word is no type, and which it was most likely meant to be.
func NotAType(word string) string {
	message := fmt.Sprintf("%s is not a type", short(word))
	if meant := otherNames[strings.ToLower(word)]; meant != "" {
		return fmt.Sprintf("%s; did you mean %q?", message, meant)
	}
	if meant := diagnostics.Suggest(word, types); meant != "" {
		return fmt.Sprintf("%s; did you mean %q?", message, meant)
	}
	return message + ": there are " + strings.Join(types, ", ")
}

// notAType finds the word that is no type in the value of a keyword type.
func notAType(path string, v any) (*Error, bool) {
	words, many := v.([]any)
	if !many {
		words = []any{v}
	}
	for i, w := range words {
		if word, ok := w.(string); ok && !slices.Contains(types, word) {
			if many {
				path = value.Pointer(path, strconv.Itoa(i))
			}
			return &Error{path, NotAType(word)}, true
		}
	}
	return nil, false
}

// named says of a string that has the wrong type which one it is.
func named(message string, v any) string {
	if word, ok := v.(string); ok {
		if before, ok := strings.CutSuffix(message, ", not a string"); ok {
			return before + ", not " + short(word)
		}
	}
	return message
}

// nearest ends the message that v is none of the choices: which word it is, and which was most likely meant. It says
// nothing of other values than words.
func nearest(v any, choices []any) string {
	word, ok := v.(string)
	if !ok || word == "" {
		return ""
	}
	var words []string
	for _, c := range choices {
		if w, ok := c.(string); ok {
			words = append(words, w)
		}
	}
	text := ", not " + short(word)
	if meant := diagnostics.Suggest(word, words); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	return text
}

// Misspelling is a keyword of a schema that JSON Schema does not know and that resembles one.
type Misspelling struct {
	Path, Word, Meant string // Path is that of the object the word stands in
}

// Misspelt returns the keywords of a schema, decoded JSON, that were most likely meant to be others: JSON Schema
// allows them, and they check nothing. They are sorted by path; at most 100 are returned.
func Misspelt(doc any) []Misspelling {
	sv := survey{doc: doc, spell: true}
	sv.walk(doc, "", 0, keywords)
	return sv.misspelt
}

const maxMisspelt = 100

// spelling notes a keyword that is not known; false: it is.
func (sv *survey) spelling(word, path string) bool {
	if slices.Contains(known, word) || slices.Contains(openAPI, word) || strings.HasPrefix(word, "x-") {
		return slices.Contains(openAPI, word)
	}
	if meant := diagnostics.Suggest(word, known); meant != "" && len(sv.misspelt) < maxMisspelt {
		sv.misspelt = append(sv.misspelt, Misspelling{path, word, meant})
	}
	return true
}

// known are the keywords of JSON Schema, drafts 4 to 2020-12.
var known = []string{
	"$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
	"$ref", "$schema", "$vocabulary", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
	"contains", "contentEncoding", "contentMediaType", "contentSchema", "default", "definitions", "dependencies",
	"dependentRequired", "dependentSchemas", "deprecated", "description", "else", "enum", "examples",
	"exclusiveMaximum", "exclusiveMinimum", "format", "id", "if", "items", "maxContains", "maxItems", "maxLength",
	"maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
	"not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "readOnly",
	"required", "then", "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
}

// openAPI are words that OpenAPI adds, which resemble others or not.
var openAPI = []string{"discriminator", "example", "externalDocs", "nullable", "xml"}

// clamp lowers a count that no value can reach to one that none can reach either: the library takes it for an int,
// where a larger one wraps around. A schema that was clamped before is not changed.
func clamp(object map[string]any, keyword string) {
	switch keyword {
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
		"maxContains":
		switch n := object[keyword].(type) {
		case int64:
			if n > math.MaxInt32 {
				object[keyword] = int64(math.MaxInt32)
			}
		case float64:
			if n > math.MaxInt32 {
				object[keyword] = int64(math.MaxInt32)
			}
		case json.Number:
			if value.Compare(n, int64(0)) > 0 {
				object[keyword] = int64(math.MaxInt32)
			}
		}
	}
}
