package command

import (
	"fmt"
	"slices"
	"strings"
)

// provider is a provider of models that braise.yaml can name: how its models are configured, and what they can do.
type provider struct {
	Name     string   `json:"name"`
	Provider string   `json:"provider"` // of a model in braise.yaml
	Model    string   `json:"model"`    // one to begin with
	BaseURL  string   `json:"baseUrl,omitempty"`
	Key      string   `json:"key,omitempty"` // the environment variable that has the API key; "": none is needed
	Can      []string `json:"can"`           // what models of the provider can do, though not every one of them
}

// The words of provider.Can.
const (
	canStream = "stream" // texts arrive in pieces
	canTools  = "tools"
	canSchema = "schema" // the provider holds answers to a JSON Schema
	canImages = "images"
	canPDF    = "pdf"       // files of this type
	canThink  = "reasoning" // an effort can be given
	canCache  = "cached"    // what is read from the provider's cache is reported
	canBatch  = "batch"     // batch: true of a model
)

// providers are those that init, models and docs/models.md know. Any other endpoint with the API of one of these works
// as well.
var providers = []provider{
	{"openai", "openai", "gpt-5-mini", "", "OPENAI_API_KEY",
		[]string{canStream, canTools, canSchema, canImages, canPDF, canThink, canCache, canBatch}},
	{"anthropic", "anthropic", "claude-sonnet-5-5", "", "ANTHROPIC_API_KEY",
		[]string{canStream, canTools, canSchema, canImages, canPDF, canThink, canCache, canBatch}},
	{"gemini", "gemini", "gemini-3.8-flash", "", "GEMINI_API_KEY",
		[]string{canStream, canTools, canSchema, canImages, canPDF, canThink, canCache}},
	{"ollama", "openai", "llama3.2", "http://localhost:11434/v1", "",
		[]string{canStream, canTools, canSchema, canImages}},
	{"vllm", "openai", "Qwen/Qwen3-8B", "http://localhost:8000/v1", "",
		[]string{canStream, canTools, canSchema, canImages}},
	{"openrouter", "openai", "anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY",
		[]string{canStream, canTools, canSchema, canImages, canPDF, canThink, canCache}},
	{"mistral", "openai", "mistral-small-latest", "https://api.mistral.ai/v1", "MISTRAL_API_KEY",
		[]string{canStream, canTools, canSchema, canImages}},
	{"groq", "openai", "openai/gpt-oss-20b", "https://api.groq.com/openai/v1", "GROQ_API_KEY",
		[]string{canStream, canTools, canSchema, canImages, canThink}},
	{"deepseek", "openai", "deepseek-chat", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY",
		[]string{canStream, canTools, canCache}},
}

// yaml is a model of the provider as braise.yaml has it, on one line.
func (p *provider) yaml() string {
	members := []string{"provider: " + p.Provider, "model: " + p.Model}
	if p.BaseURL != "" {
		members = append(members, fmt.Sprintf("base_url: %q", p.BaseURL))
	}
	if p.Key != "" {
		members = append(members, fmt.Sprintf(`api_key: "${%s}"`, p.Key))
	}
	if !slices.Contains(p.Can, canSchema) {
		members = append(members, "json_schema: false")
	}
	return "{" + strings.Join(members, ", ") + "}"
}
