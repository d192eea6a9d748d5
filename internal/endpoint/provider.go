package endpoint

import (
	"path"
	"strings"
)

// providers names those who are well known, by pattern of the host.
// https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
var providers = [][2]string{
	{"*.openai.com", "openai"},
	{"*.openai.azure.com", "azure.ai.openai"},
	{"*.ai.azure.com", "azure.ai.inference"},
	{"*.anthropic.com", "anthropic"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"*aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"bedrock-runtime.*.amazonaws.com", "aws.bedrock"},
	{"*.mistral.ai", "mistral_ai"},
	{"*.groq.com", "groq"},
	{"*.deepseek.com", "deepseek"},
	{"*.x.ai", "x_ai"},
	{"*.perplexity.ai", "perplexity"},
	{"*.cohere.ai", "cohere"},
	{"*.cohere.com", "cohere"},
	{"*.ml.cloud.ibm.com", "ibm.watsonx.ai"},
}

// ProviderOf names the provider at a host, as OpenTelemetry's conventions do; the host itself if it is not well known.
func ProviderOf(host string) string {
	host = strings.ToLower(host)
	for _, p := range providers {
		if known, _ := path.Match(p[0], host); known {
			return p[1]
		}
	}
	return host
}
